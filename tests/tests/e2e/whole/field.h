#pragma once
// A field on the device; its methods are in another file than their callers.
class Field {
public:
  explicit Field(int n);
  ~Field();
  void step(int times);
  float at(int i) const;

private:
  int n;
  float *now;
  float *next;
};
