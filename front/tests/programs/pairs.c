/* A job of several devices: pairs DEVICES MIB [export]. It takes that much on one device after the other, and says for
   each which GPU it is. With `export` other processes may have its memory, which stays where it is then. */
#include "stages.h"

int main(int argc, char **argv) {
  if (argc != 3 && argc != 4)
    return 2;
  CHECK(cuInit(0));
  for (int i = 0; i < atoi(argv[1]); i++) {
    CUcontext context;
    CUuuid uuid;
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i}};
    char line[64];
    int length = snprintf(line, sizeof line, "%d ", i);
    CHECK(cuDevicePrimaryCtxRetain(&context, i));
    CHECK(cuCtxSetCurrent(context));
    if (argc == 4)
      prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CHECK(cuMemCreate(&memory, (size_t)atoi(argv[2]) << 20, &prop, 0));
    if (argc == 4) {
      int file;
      CHECK(cuMemExportToShareableHandle(&file, memory, prop.requestedHandleTypes, 0));
    }
    CHECK(cuDeviceGetUuid(&uuid, i));
    for (int k = 0; k < 16; k++)
      length += snprintf(line + length, sizeof line - length, "%02x", (unsigned char)uuid.bytes[k]);
    stage(line);
  }
  puts("PASS");
  return 0;
}
