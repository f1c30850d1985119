//! Running kernels: from a launch to the threads of its blocks.
//!
//! A launch is a grid of blocks ([`grid`]), which worker threads ([`pool`]) take in chunks, in the order of
//! their indices. A block whose threads never wait for each other runs them one after another
//! ([`no_barrier_blocks`]). Threads that do wait ([`block`], [`block_threads`]) are coroutines where the compiler could split the kernel
//! ([`coroutines`]), else each has a stack ([`fibers`]); barriers and warp operations ([`sync`]) decide which
//! threads go on. A block whose threads wait for what other blocks write is set aside, and resumed in turn
//! with the others that the device would hold at once. All of them run on stacks that are not the program's,
//! so that a fault ([`fault`]) ends the kernel and not the process.

pub mod block;
pub mod block_memory;
pub mod block_threads;
pub mod calls;
pub mod coroutines;
pub mod device_heap;
pub mod fault;
pub mod fiber;
pub mod fibers;
pub mod grid;
pub mod matrix;
pub mod no_barrier_blocks;
pub mod order;
pub mod output;
pub mod pool;
pub mod registry;
pub mod step;
pub mod sync;
pub mod textures;
pub mod thread;
pub mod threads;
pub mod warp;
