// Ordinary C++ without a word of CUDA: some thousands of functions of the standard library, and what programs do with
// exceptions, threads, function pointers and memory.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iomanip>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <queue>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <valarray>
#include <variant>
#include <vector>

struct Record {
  std::string name;
  int value = 0;
  friend bool operator<(const Record &a, const Record &b) { return a.name < b.name; }
  friend bool operator==(const Record &a, const Record &b) { return a.name == b.name; }
};
template <> struct std::hash<Record> {
  size_t operator()(const Record &record) const { return std::hash<std::string>()(record.name); }
};

#define CONTAINERS(T)                                                                                                  \
  template class std::vector<T>;                                                                                       \
  template class std::deque<T>;                                                                                        \
  template class std::list<T>;                                                                                         \
  template class std::set<T>;                                                                                          \
  template class std::multiset<T>;                                                                                     \
  template class std::map<T, Record>;                                                                                  \
  template class std::multimap<int, T>;                                                                                \
  template class std::unordered_set<T>;                                                                                \
  template class std::unordered_map<T, std::vector<T>>;                                                                \
  template class std::priority_queue<T>;                                                                               \
  template class std::optional<T>;                                                                                     \
  template class std::shared_ptr<T>;                                                                                   \
  template class std::future<T>;                                                                                       \
  template class std::promise<T>;                                                                                      \
  template class std::function<T(const T &)>;
CONTAINERS(int)
CONTAINERS(Record)
template class std::basic_string<char32_t>;

// Names that programs with CUDA give their own functions.
extern "C" void *device_malloc(size_t bytes) { return malloc(bytes); }
extern "C" int cudaLike(void *to, const void *from, size_t bytes) { return memcpy(to, from, bytes) == to; }

using Visitor = void (*)(std::vector<Record> &, void *);
void each(std::vector<Record> &records, Visitor visit, void *data) {
  for (size_t i = 0; i < records.size(); i++)
    visit(records, data);
}

int main(int argc, char **argv) try {
  std::vector<Record> records;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int i = 0; i < argc; i++)
    threads.emplace_back([&, i] {
      std::lock_guard<std::mutex> lock(mutex);
      records.push_back({argv[i], i});
    });
  for (std::thread &thread : threads)
    thread.join();
  std::sort(records.begin(), records.end());
  std::stable_sort(records.begin(), records.end(), [](auto &a, auto &b) { return a.value < b.value; });
  each(records, [](std::vector<Record> &all, void *) { std::reverse(all.begin(), all.end()); }, nullptr);
  std::regex pattern("([a-z]+)-([0-9]*)");
  for (Record &record : records)
    std::cout << std::regex_replace(record.name, pattern, "$2") << std::setw(8) << record.value << '\n';
  for (auto &entry : std::filesystem::directory_iterator("."))
    std::cout << entry.path() << '\n';
  std::variant<int, std::string, Record> one = Record{"x", 1};
  return std::visit([](auto &value) { return int(sizeof value); }, one) == 0;
} catch (const std::exception &error) {
  std::cerr << error.what() << '\n';
  return 1;
}
