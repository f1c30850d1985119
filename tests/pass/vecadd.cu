// The smallest complete task. The begin is before the first touching op, every op gets a hint with its task,
// and the end follows the last op.
// RUN: %ir-O0 %s | %mgb -o %t.ll && FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
// RUN: %ir-O1 %s | %mgb -o %t.ll && FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void add(const float *a, const float *b, float *c, int n) {}

// CHECK: @mgb.source = private unnamed_addr constant [{{.*}}vecadd.cu\00"
// CHECK: @mgb.function = private unnamed_addr constant {{.*}}c"vecadd(int, float const*, float const*, float*)\00"
// CHECK: @mgb.site.1 = private constant { i32, i32, ptr, ptr } { i32 24, i32 1, ptr @mgb.source, ptr @mgb.function }
// CHECK: @mgb.report = private constant {{.*}} section ".mgb.report", align 1
// CHECK: @llvm.used = appending global {{.*}} @mgb.report

// The stub launches through lazyrt.
// CHECK-LABEL: define {{.*}} @_Z18__device_stub__addPKfS0_Pfi
// CHECK: call {{.*}}@mgb___cudaPopCallConfiguration
// CHECK: call {{.*}}@mgb_cudaLaunchKernel

// CHECK-LABEL: define {{.*}} @_Z6vecaddiPKfS0_Pf
// CHECK: store i64 0, ptr %mgb.handle
// CHECK: store i64 0, ptr %mgb.activation
// CHECK: %[[T:.*]] = load i64, ptr %mgb.handle
// CHECK: call void @mgb_task_use_in(ptr @mgb.site.1, i64 %[[T]], ptr %mgb.activation)
// CHECK-NEXT: call {{.*}}@mgb_cudaMalloc
// CHECK: call void @mgb_task_use
// CHECK-NEXT: call {{.*}}@mgb_cudaMalloc
// CHECK: call void @mgb_task_use
// CHECK-NEXT: call {{.*}}@mgb_cudaMalloc
// CHECK: %[[H:.*]] = call i64 @mgb_task_begin_in(ptr @mgb.site.1, ptr %mgb.need, ptr %mgb.activation)
// CHECK-NEXT: store i64 %[[H]], ptr %mgb.handle
// CHECK: call void @mgb_task_use
// CHECK-NEXT: call {{.*}}@mgb_cudaMemcpy
// CHECK: call void @mgb_task_use
// CHECK-NEXT: call {{.*}}@mgb_cudaMemcpy
// CHECK: call {{.*}}@mgb___cudaPushCallConfiguration
// CHECK: call void @mgb_task_use(ptr @mgb.site.1, i64 %{{[^,]*}})
// CHECK-NEXT: call {{.*}}__device_stub__add
// CHECK: call {{.*}}@mgb_cudaMemcpy
// CHECK-COUNT-3: call {{.*}}@mgb_cudaFree
// CHECK-NEXT: %[[E:.*]] = load i64, ptr %mgb.handle
// CHECK-NEXT: call void @mgb_task_end(i64 %[[E]])
// CHECK-NEXT: store i64 0, ptr %mgb.handle
// CHECK-NOT: @cuda
// CHECK: declare {{.*}}i32 @mgb_cudaMalloc(

// REPORT: module {{.*}}vecadd.cu version 1
// REPORT-NEXT: task 1 static in vecadd(int, float const*, float const*, float*)
// REPORT-NEXT: object 1 da: 4 * n
// REPORT-NEXT: object 2 db: 4 * n
// REPORT-NEXT: object 3 dc: 4 * n
// REPORT-NEXT: op cudaMalloc [1] :[[@LINE+17]]
// REPORT-NEXT: op cudaMalloc [2]
// REPORT-NEXT: op cudaMalloc [3]
// REPORT-NEXT: op cudaMemcpy [1]
// REPORT-NEXT: op cudaMemcpy [2]
// REPORT-NEXT: op launch add(float const*, float const*, float*, int) [1,2,3]
// REPORT-NEXT: op cudaMemcpy [3]
// REPORT-COUNT-3: op cudaFree
// REPORT-NEXT: peak: 3 * (4 * n)
// REPORT-NEXT: grid: (n + 255) / 256
// REPORT-NEXT: block: 256
// REPORT-NEXT: shared: 0
// REPORT-NEXT: begin :[[@LINE+8]]
// REPORT-NEXT: end :[[@LINE+13]]
void vecadd(int n, const float *a, const float *b, float *c) {
  size_t bytes = n * sizeof(float);
  float *da, *db, *dc;
  cudaMalloc(&da, bytes);
  cudaMalloc(&db, bytes);
  cudaMalloc(&dc, bytes);
  cudaMemcpy(da, a, bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(db, b, bytes, cudaMemcpyHostToDevice);
  add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
  cudaMemcpy(c, dc, bytes, cudaMemcpyDeviceToHost);
  cudaFree(da);
  cudaFree(db);
  cudaFree(dc);
}
