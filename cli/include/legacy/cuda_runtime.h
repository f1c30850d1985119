/* Before CUDA's header of this name, in files without device code under --mgb-legacy: what CUDA has dropped comes with it,
   and not into files that include no CUDA. */
#include_next <cuda_runtime.h>
#ifdef __cplusplus
#define MGB_LEGACY_RUNTIME
#include "../mgb_legacy.h"
#endif
