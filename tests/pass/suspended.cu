// A coroutine that is suspended is still active: its task ends where the coroutine returns or is destroyed. The word of
// its activation is a part of its frame, as is the handle.
// RUN: %ir-O0 -std=c++20 -Xclang -disable-llvm-passes %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %opt -passes='coro-early,cgscc(coro-split),coro-cleanup' %t.ll -o %t.split.ll
// RUN: FileCheck %s --input-file=%t.split.ll --check-prefix=SPLIT
#include "cuda.h"

namespace std {
template <class T, class...> struct coroutine_traits {
  using promise_type = typename T::promise_type;
};
template <class Promise = void> struct coroutine_handle {
  static coroutine_handle from_address(void *) noexcept { return {}; }
};
template <> struct coroutine_handle<void> {
  template <class P> coroutine_handle(coroutine_handle<P>) {}
};
struct always {
  bool await_ready() noexcept { return false; }
  void await_suspend(coroutine_handle<>) noexcept {}
  void await_resume() noexcept {}
};
} // namespace std
struct Steps {
  struct promise_type {
    Steps get_return_object() { return {}; }
    std::always initial_suspend() noexcept { return {}; }
    std::always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};
__global__ void work(int *x) {}

// CHECK-LABEL: define {{.*}} @_Z5stepsi
// CHECK: %mgb.activation = alloca i64
// CHECK: store i64 0, ptr %mgb.activation
// CHECK: call void @mgb_task_use_in(ptr @mgb.site.1, i64 %{{.*}}, ptr %mgb.activation)
// CHECK: call i64 @mgb_task_begin_in(ptr @mgb.site.1, ptr %mgb.need, ptr %mgb.activation)
// CHECK: [[WAITS:%[0-9]+]] = call i8 @llvm.coro.suspend
// CHECK: switch i8 [[WAITS]], label %coro.ret [
// SPLIT-LABEL: define {{.*}} @_Z5stepsi.resume
// SPLIT: %[[HANDLE:.*]] = getelementptr inbounds %_Z5stepsi.Frame
// SPLIT: call i64 @mgb_task_begin_in(ptr @mgb.site.1, ptr %{{.*}}, ptr %{{mgb.activation.*addr.*}})
Steps steps(int n) {
  int *x;
  cudaMalloc(&x, n);
  co_await std::always{};
  work<<<1, 1>>>(x);
  co_await std::always{};
  work<<<1, 1>>>(x);
  cudaFree(x);
}
