/* mgb.h - the probe: tell the scheduler what a GPU task needs before it starts.
 *
 * The MGB pass calls these functions by itself; a program may also call them by
 * hand. They are in libmgb_rt.so (mgb clang links it). Every function may be
 * called from any thread. Without a running mgbd they return at once, and the
 * program runs natively.
 */
#ifndef MGB_H
#define MGB_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a task asks for. Set `size` to sizeof(mgb_need); unknown fields are 0.
 * Sizes are bytes. */
typedef struct mgb_need {
  uint32_t size;              /* sizeof(mgb_need): lets the structure grow */
  uint32_t flags;             /* MGB_NEED_* */
  uint64_t peak_bytes;        /* the largest sum of live objects, unrounded */
  uint64_t mapped_bytes;      /* bound on it after granule rounding; 0: derived */
  uint64_t grid_blocks;       /* blocks of the largest launch; 0: not known */
  uint32_t block_threads;     /* threads per block of that launch; 0: not known */
  uint32_t registers;         /* per thread; 0: not known */
  uint32_t shared_bytes;      /* per block, static and dynamic */
  uint32_t priority;          /* higher goes first under schedgpu:priority; 0: MGB_PRIORITY */
  uint64_t heap_bytes;        /* device-side malloc heap beyond the default */
  uint64_t deadline_ns;       /* from the task's begin until its result is wanted; 0: MGB_DEADLINE */
} mgb_need;

#define MGB_NEED_LAZY 1u      /* found at run time, not by the pass */
#define MGB_NEED_PROCESS 2u   /* the whole process is one task */
#define MGB_NEED_VARIABLES 4u /* touches device variables: tasks of a process that do share a GPU */
#define MGB_NEED_ALONE 8u     /* see MGB_NEVER_SHARE; with MGB_NEED_PROCESS, until the process ends */
#define MGB_NEED_MOVABLE 16u  /* its data depends on no GPU: mgbd may move it to another one */
#define MGB_NEED_LATENCY 32u  /* the process is a latency program from the task on: see MGB_LATENCY */

/* Identifies a task of this process; 0 is "no task": the program runs natively.
 * A refused task has a handle of its own, which carries the refusal. */
typedef uint64_t mgb_task;

/* A static task as the pass describes it; one constant per task and module. */
typedef struct mgb_task_site {
  uint32_t size;              /* sizeof(mgb_task_site) */
  uint32_t id;                /* number of the task in its module's report */
  const char *module;         /* source file of the module */
  const char *function;       /* function that holds the task */
} mgb_task_site;

/* Blocks until the task is granted a GPU with room for `need`, and binds the
 * task to it. A need is advice: a task whose need fits no GPU is bound at run
 * time, by what it really allocates, and a line on stderr says so. `site` may
 * be NULL. */
mgb_task mgb_task_begin(const mgb_task_site *site, const mgb_need *need);

/* The next GPU op of this thread belongs to `task`. With task 0, `site` still
 * groups allocations made before the task begins. */
void mgb_task_use(const mgb_task_site *site, mgb_task task);

/* The same for a function that may be active several times at once: by recursion,
 * as a coroutine, on several fibers or threads. `activation` points to a local
 * variable of the function that is 0 as it is entered: MGB writes a number there.
 * What is allocated with a word before the task begins is the task's that begins
 * with the same word and site, whatever thread does either. Without one (null, or
 * the functions above), a thread has one such task of each site. */
mgb_task mgb_task_begin_in(const mgb_task_site *site, const mgb_need *need, uint64_t *activation);
void mgb_task_use_in(const mgb_task_site *site, mgb_task task, uint64_t *activation);

/* A hint that the task is over: gives back its warps and the room it did not
 * use. Memory that is still allocated stays charged. Ending 0 is nothing. */
void mgb_task_end(mgb_task task);

/* Others wait for what this process computes, from here on: see MGB_LATENCY,
 * which calls it where there is one. */
#if defined(__GNUC__)
__attribute__((weak))
#endif
void mgb_latency(void);

#ifdef __cplusplus
}
#endif

/* MGB_LATENCY, a statement of host code: somebody waits for what this process
 * computes, so that it is a latency program from here on (docs/TIME.md), as if it
 * had been started by `mgb run --latency`. The earlier the better: behind the
 * process's first use of a GPU MPS keeps its priority and its multiprocessors as
 * they were. It is for the whole process and its forked children, for good. Where
 * the user may run no latency programs, a line on stderr says so, and nothing
 * changes. Natively it does nothing: mgb_latency is a weak symbol, which only
 * libmgb_rt.so defines. Code that was not built with MGB calls mgb_front_latency
 * of the libcuda.so.1 that `mgb run` puts before the driver's, in Python by
 * `ctypes.CDLL("libcuda.so.1").mgb_front_latency()`. */
#if defined(__GNUC__)
#define MGB_LATENCY() (mgb_latency ? mgb_latency() : (void)0)
#else
#define MGB_LATENCY() mgb_latency()
#endif

/* A program that was not built with MGB says what it is about to take of its GPU,
 * or of the first of several, by functions of the libcuda.so.1 that `mgb run` puts
 * before the driver's; Python by the package `mgb` (docs/PYTHON.md):
 *
 *     int mgb_front_need(uint64_t bytes);
 *     void mgb_front_need_over(uint64_t bytes);
 *
 * The first waits until so much is reserved beside what was said before, and what
 * the program holds already counts. It returns 1; 2 before the first call of the
 * driver, which then waits; 0 where the process runs natively; -1 where there is
 * not so much for the program, or a signal ended the wait: a line on stderr says
 * why, and the program waits for room as it allocates. The second, after 1 or 2,
 * gives back what the program does not hold. */

/* Hints, as statements of host code. `mgb explain` shows them. In a function
 * that is inlined, a hint holds for the function that the tasks come to stand
 * in. It leaves no code behind, and a compiler that does not know it makes
 * nothing of it.
 *
 * MGB_NEVER_MOVE: the tasks of this function stay on the GPU that they are
 * bound to, because their data means something on that GPU only.
 *
 * MGB_NEVER_SHARE: each static task of this function begins on a GPU on which
 * no other process has room or a task, and as long as it runs no other process
 * is granted anything there: for what measures times, or misbehaves beside
 * others. Contexts of other processes may be there. Where the process is tied
 * to one GPU, it waits for that one: by memory of its lazy tasks, or by calls of
 * the driver API. Where it would wait for ever, since those on the GPU wait in
 * turn, it begins beside their memory, and they go on after it. A lazy task of
 * the function shares as any other, and the policies `sa` and `cg:N` know no
 * hints.
 *
 * MGB_NEED, before the first GPU op: a task of this function whose need MGB
 * cannot tell (`mgb explain` says need-undefined, allocated-in-loop or
 * no-dominating-point) has at most so many bytes allocated at a time, and is
 * static by that. Where MGB can tell, it changes nothing. Should the task want
 * more than was said, it waits for the room half-way, as a lazy one does.
 *
 * MGB_DEADLINE, before the first GPU op: the result of each static task of this
 * function is wanted so many milliseconds after the task begins: of each one
 * that a loop begins, say for each request of a server. It decides who goes
 * first where mgbd serves by deadlines (--queue edf or laxity), and nothing is
 * stopped that misses it. A lazy task has the process's deadline, as does a task
 * without a hint: MGB_DEADLINE in its environment, or mgb run --deadline. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_annotation)
#define MGB_NEVER_MOVE() ((void)__builtin_annotation(0, "mgb.never-move"))
#define MGB_NEVER_SHARE() ((void)__builtin_annotation(0, "mgb.never-share"))
#define MGB_NEED(bytes) ((void)__builtin_annotation((uint64_t)(bytes), "mgb.need"))
#define MGB_DEADLINE(ms) ((void)__builtin_annotation((uint64_t)(ms), "mgb.deadline"))
#endif
#endif
#ifndef MGB_NEVER_MOVE
#define MGB_NEVER_MOVE() ((void)0)
#define MGB_NEVER_SHARE() ((void)0)
#define MGB_NEED(bytes) ((void)(bytes))
#define MGB_DEADLINE(ms) ((void)(ms))
#endif
#endif
