; A kernel as a coroutine: KERNEL stands for its entry, THREAD for the coroutine. It begins
; suspended; resumed, it runs to where its thread waits for others. Its frame is its caller's,
; and as long as what it returns, which is a constant. A frame whose first word is null has ended.
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare ptr @llvm.coro.begin(token, ptr)
declare i64 @llvm.coro.size.i64()
declare i8 @llvm.coro.suspend(token, i1)
declare void @llvm.coro.end(ptr, i1, token)
declare void @"KERNEL"(ptr, ptr)

define i64 @"THREAD"(ptr %self, ptr %arguments, ptr %frame) presplitcoroutine nounwind {
  %id = call token @llvm.coro.id(i32 64, ptr null, ptr null, ptr null)
  %size = call i64 @llvm.coro.size.i64()
  %handle = call ptr @llvm.coro.begin(token %id, ptr %frame)
  %begun = call i8 @llvm.coro.suspend(token none, i1 false)
  switch i8 %begun, label %out [ i8 0, label %run ]
run:
  call void @"KERNEL"(ptr %self, ptr %arguments) alwaysinline
  br label %last
last:
  %ended = call i8 @llvm.coro.suspend(token none, i1 true)
  br label %out
out:
  call void @llvm.coro.end(ptr null, i1 false, token none)
  ret i64 %size
}
