#pragma once

#include <string>
#include <vector>

// Controls for tests, in addition to the interfaces of CUDA, cuBLASLt and NCCL.
//
// Environment: EMULATED_GPUS, the number of GPUs (1); EMULATED_ORDER, the seed for the order of
// unordered operations (1); CUDA_VISIBLE_DEVICES, as in CUDA, with numbers.
namespace emulated {

// Starts counting the calls of the three libraries that may fail, from 1, over all threads; call
// `number` fails; 0: none. Calls that only free something or query an error are not counted.
void FailCall(int number);
// The number of counted calls, and the name of the failed one ("cudaMalloc"), or "" if none failed.
int Calls();
std::string FailedCall();

// How often `name` ("cudaEventRecord", "cudaLaunchKernelEx", "ncclCommInitRankConfig") was called
// since the last FailCall.
int CallsOf(const std::string& name);

}  // namespace emulated
