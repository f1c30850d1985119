// The file that chooses the device: the pass does not see it where the rest is compiled.

#include "../check.h"

void choose(int device) { OK(cudaSetDevice(device)); }
