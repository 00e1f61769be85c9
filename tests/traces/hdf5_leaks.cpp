/// HDF5 leaks what it has read of a damaged file before it finds the damage. Its allocations are
/// all that no leak is told of: what is open at the end of a process the library closes by itself.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
