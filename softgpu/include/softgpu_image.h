/* softgpu_image.h - what translated device code and the software GPU agree on.
 *
 * The pass translates each device module into host code and emits one
 * softgpu_image per translation unit. A constructor of the program hands it to
 * softgpu through a weak symbol: on a real GPU that symbol is null, and nothing
 * happens. Rust mirrors: softgpu/src/image.rs. The pass: pass/src/device/.
 */
#ifndef SOFTGPU_IMAGE_H
#define SOFTGPU_IMAGE_H

#include <stdint.h>

#define SOFTGPU_IMAGE_VERSION 3u

struct softgpu_calls;

/* The state of one running thread. Generated code reads the public part through
 * a thread-local pointer of its own object (see softgpu_image.self). */
typedef struct softgpu_thread {
  uint32_t tid[3];            /*  0: threadIdx */
  uint32_t ntid[3];           /* 12: blockDim */
  uint32_t ctaid[3];          /* 24: blockIdx */
  uint32_t nctaid[3];         /* 36: gridDim */
  uint32_t lane, warp;        /* 48: within the block */
  char *shared;               /* 56: the block's static shared memory */
  char *dynamic_shared;       /* 64: its dynamic shared memory */
  const struct softgpu_calls *calls; /* 72 */
  uint64_t ops;               /* 80: instructions executed, counted by block */
  char *shared_end;           /* 88: past the dynamic shared memory */
  uint32_t polls;             /* 96: how often it has seen the same at poll_place in a loop */
  void *workspace;            /* 104: of a cooperative launch: its size, its grid barrier */
  uint64_t poll_value;        /* 112: what it saw last in memory that others write */
  const void *poll_place;     /* 120: and where */
  char *local;                /* 128: of a coroutine: its frame, which its variables lie in */
  uint64_t local_bytes;       /* 136: bytes of that; 0 of others */
  uint32_t answer;            /* 144: what a coroutine's last service gave it, once it goes on */
  /* what follows belongs to the runtime */
} softgpu_thread;

/* Services that generated code calls. Where a thread waits in one, a coroutine's call returns at once:
 * it is to suspend itself then, and finds the result in `answer` when it is resumed. New ones are only ever added at the end;
 * `count` says how many there are. */
typedef struct softgpu_calls {
  uint32_t version, count;
  /* barrier `id` for `threads` threads of the block, 0: all */
  void (*barrier)(softgpu_thread *, uint32_t id, uint32_t threads);
  /* the same, with an answer: kind 0: popc, 1: and, 2: or, over the `predicate` of each */
  uint32_t (*barrier_reduce)(softgpu_thread *, uint32_t id, uint32_t threads,
                             uint32_t kind, uint32_t predicate);
  void (*warp_sync)(softgpu_thread *, uint32_t mask);
  /* kind 0: idx, 1: up, 2: down, 3: bfly; c is PTX's clamp-and-mask operand;
   * *in_range (may be null) is whether the source lane was in range */
  uint32_t (*shuffle)(softgpu_thread *, uint32_t kind, uint32_t mask, uint32_t value,
                      uint32_t lane, uint32_t c, uint8_t *in_range);
  /* kind 0: all, 1: any, 2: uni, 3: ballot */
  uint32_t (*vote)(softgpu_thread *, uint32_t kind, uint32_t mask, uint32_t predicate);
  /* `site` tells the places of a module apart: who asks at the same is active together */
  uint32_t (*active_mask)(softgpu_thread *, uint32_t site);
  /* ends the launch with an error that names `what`; does not return */
  void (*trap)(softgpu_thread *, const char *what);
  int32_t (*vprintf)(softgpu_thread *, const char *format, const void *arguments);
  void (*assert_fail)(softgpu_thread *, const char *message, const char *file,
                      uint32_t line, const char *function);
  uint64_t (*clock)(softgpu_thread *);       /* device clock cycles */
  uint64_t (*global_timer)(softgpu_thread *); /* nanoseconds */
  void (*barrier_arrive)(softgpu_thread *, uint32_t id, uint32_t threads); /* does not wait */
  /* lets other threads and other blocks run: the caller waits for what they do */
  void (*yield)(softgpu_thread *);
  void (*exit)(softgpu_thread *);            /* ends the thread; does not return */
  void *(*allocate)(softgpu_thread *, uint64_t bytes); /* from the device's heap; null: full */
  void (*release)(softgpu_thread *, void *);
  /* D = A * B + C, of matrices that all lanes of the warp hold. `shape` is m | n << 8 | k << 16 |
   * (A's type | B's << 4 | C's << 8 | D's << 12) << 32 | flags << 48. `operands` has the lane's registers of
   * A, of B and of C one behind the other, aligned to 8, and gets those of D at its start.
   * A lane l holds of each 8 rows and 4 * run columns the elements l % 4 * run ... of row l / 4: run is 2
   * in C and D, and in A and B what 32 bits hold, or 1. Such tiles come row after row of a column of tiles.
   * B lies as its transpose does. */
  void (*matrix)(softgpu_thread *, uint64_t shape, void *operands);
  /* Reads a texture object. geometry 0: 1d, 1: 2d, 2: 3d, 3: layered 1d, 4: layered 2d, 5: cube,
   * 6: layered cube. kind 0: floats are the coordinates, 1: whole numbers, 4 + c: gathers channel c. `at`
   * has four words: the layer of a layered one, then the coordinates; `result` has room for four. */
  void (*texture)(softgpu_thread *, uint64_t object, uint32_t geometry, uint32_t kind,
                  const uint32_t *at, uint32_t *result);
  /* Reads `bytes` bytes of a surface object, or writes them. geometry as above; mode 0: zero, 1: clamp,
   * 2: trap; `at` as above, in whole numbers, the first coordinate in bytes. */
  void (*surface_read)(softgpu_thread *, uint64_t object, uint32_t geometry, uint32_t mode,
                       const uint32_t *at, uint32_t bytes, void *to);
  void (*surface_write)(softgpu_thread *, uint64_t object, uint32_t geometry, uint32_t mode,
                        const uint32_t *at, uint32_t bytes, const void *from);
  /* whether the address is of the calling thread's own variables: in its frame, or on the stack that it runs on */
  uint32_t (*is_local)(softgpu_thread *, const void *);
} softgpu_calls;

/* Types of elements. */
#define SOFTGPU_MATRIX_F16 0u
#define SOFTGPU_MATRIX_BF16 1u
#define SOFTGPU_MATRIX_TF32 2u
#define SOFTGPU_MATRIX_F32 3u
#define SOFTGPU_MATRIX_F64 4u
#define SOFTGPU_MATRIX_S8 5u
#define SOFTGPU_MATRIX_U8 6u
#define SOFTGPU_MATRIX_S4 7u
#define SOFTGPU_MATRIX_U4 8u
#define SOFTGPU_MATRIX_B1 9u
#define SOFTGPU_MATRIX_S32 10u
#define SOFTGPU_MATRIX_E4M3 11u
#define SOFTGPU_MATRIX_E5M2 12u
/* Flags. */
#define SOFTGPU_MATRIX_SATURATES 1u /* integer sums stop at the ends of their range */
#define SOFTGPU_MATRIX_AND 2u       /* bits are multiplied by `and`, else by exclusive or */

typedef struct softgpu_parameter {
  uint32_t size, align;       /* of the value that the launch's argument array points to */
} softgpu_parameter;

#define SOFTGPU_KERNEL_BARRIER 1u   /* needs threads of a block to wait for each other */
#define SOFTGPU_KERNEL_COROUTINE 2u /* its entry is a softgpu_begin */

/* Lays out a thread as a coroutine in `frame`, of frame_bytes and aligned to 64, which it returns. The frame
 * begins with a function: called with the frame, it runs the thread to where it waits for others; null once
 * the thread has ended. */
typedef uint64_t (*softgpu_begin)(softgpu_thread *self, void *const *arguments, void *frame);

typedef struct softgpu_kernel {
  const void *stub;           /* the host stub that launches name; null: found by name */
  const char *name;           /* mangled device name */
  /* Runs one thread; see SOFTGPU_KERNEL_COROUTINE. Null: see error. */
  void (*entry)(softgpu_thread *self, void *const *arguments);
  const char *error;          /* why the kernel has no host code: names the instruction */
  const softgpu_parameter *parameters;
  uint32_t parameter_count;
  uint32_t flags;             /* SOFTGPU_KERNEL_* */
  uint32_t static_shared;     /* bytes per block */
  uint32_t registers;         /* per thread, estimated */
  uint32_t local_bytes;       /* stack a thread needs, 0: not known */
  uint32_t max_threads;       /* __launch_bounds__, 0: none */
  uint64_t frame_bytes;       /* of a coroutine */
} softgpu_kernel;

/* A __device__, __constant__ or __managed__ variable. All of a module's
 * variables live in one block of device memory per device. */
typedef struct softgpu_variable {
  const void *host;           /* the host shadow that cudaMemcpyToSymbol names; null: found by name */
  const char *name;
  uint64_t offset, size;      /* within the block */
} softgpu_variable;

/* At `offset` of the block stands a pointer to `target` of the same block. */
typedef struct softgpu_relocation {
  uint64_t offset, target;
} softgpu_relocation;

typedef struct softgpu_image {
  uint32_t version;           /* SOFTGPU_IMAGE_VERSION */
  uint32_t kernel_count;
  const softgpu_kernel *kernels;
  const char *source;         /* source file */
  uint32_t variable_count, relocation_count;
  const softgpu_variable *variables;
  const softgpu_relocation *relocations;
  const void *initial;        /* initial contents of the block of variables */
  uint64_t variable_bytes, variable_align;
  /* Generated code finds that block here: address of the calling OS thread's
   * pointer to it, and of its softgpu_thread pointer. */
  char **(*variables_slot)(void);
  softgpu_thread **(*self_slot)(void);
} softgpu_image;

#ifdef __cplusplus
extern "C" {
#endif
/* Defined by softgpu; weak in generated code. */
void __softgpuRegisterImage(const softgpu_image *) __attribute__((weak));
#ifdef __cplusplus
}
#endif
#endif
