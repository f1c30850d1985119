/* As nvcc's device linker leaves it in a program or library whose kernels launch kernels. */
__attribute__((section("__nv_module_id"), used)) static const char sources[] =
    "_0_6_app_cu_0\0_0_22_cuda_device_runtime_cu_0";
