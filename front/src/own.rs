// The functions that the front answers itself, by the names that it exports them by, sorted; every other one
// is a jump to the driver's. Included by the build script and by the table of functions.
&["cuGetProcAddress", "cuGetProcAddress_v2"]
