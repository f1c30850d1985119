// A global object whose constructor allocates stays before main, and is lazy, where something that may run before
// main could tell that it is not there: a function that other files can call, initialisation that stays, or a
// variable of other files. The rest of the file's initialisation stays before main in any case.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=DEFERRED
// RUN: %report | FileCheck %s --check-prefix=STATIC
// RUN: %ir-O1 -DVISIBLE %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=STAYS
// RUN: %report | FileCheck %s --check-prefix=LAZY
// RUN: %ir-O1 -DHANDED_ON %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=STAYS
// RUN: %ir-O1 -DOF_OTHERS %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=STAYS
// RUN: %ir-O1 -DSHOWN %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=STAYS
// RUN: %ir-O1 -DORDERED %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=STAYS
// RUN: %ir-O1 -DFAILS %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=DEFERRED
// RUN: %ir-O1 -DUSED_BY_OTHER %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=BOTH
#include "cuda.h"

__global__ void work(int *x) {}

// Of another file, whose initialisation may call what is here.
void other_file();
extern int others;

struct Registry {
  Registry() : count(0) {}
  ~Registry() { count = -1; }
  int count;
};
static Registry registry;
void add() { registry.count++; }

struct Buffer {
  Buffer(int bytes) {
    auto error = cudaMalloc(&memory, bytes);
#ifdef FAILS
    if ((int)error != 0) {
      printf("no memory\n");
      exit(1);
    }
#endif
#ifdef ORDERED
    printf("made\n");
#endif
#ifdef OF_OTHERS
    others = bytes;
#endif
#ifdef SHOWN
    other_file();
#endif
  }
  ~Buffer() { cudaFree(memory); }
  int *memory;
};
static Buffer buffer(1000);

#ifdef USED_BY_OTHER
static int *copy = buffer.memory;
#endif

#ifdef VISIBLE
int *for_others() { return buffer.memory; }
#endif
#ifdef HANDED_ON
static int *handed_on() { return buffer.memory; }
int *(*way)() = handed_on;
#endif

// DEFERRED-LABEL: define internal void @_GLOBAL__sub_I_
// DEFERRED-NEXT: entry:
// DEFERRED-NEXT: call void @__cxx_global_var_init()
// DEFERRED-NEXT: ret void
// STAYS-LABEL: define internal void @_GLOBAL__sub_I_
// STAYS-NEXT: entry:
// STAYS-NEXT: call void @__cxx_global_var_init()
// STAYS-NEXT: @mgb_cudaMalloc(
// STAYS: ret void
// BOTH-LABEL: define internal void @_GLOBAL__sub_I_
// BOTH-NEXT: entry:
// BOTH-NEXT: call void @__cxx_global_var_init()
// BOTH-NEXT: ret void
// STATIC: static in main
// STATIC: object 1 buffer: 1000
// LAZY-NOT: static in main
int main() {
  other_file();
  work<<<1, 1>>>(buffer.memory);
#ifdef USED_BY_OTHER
  work<<<1, 1>>>(copy);
#endif
}
