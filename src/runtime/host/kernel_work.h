#pragma once

#include <cstdint>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/kernel.h"
#include "src/program/program.h"
#include "src/runtime/device.h"
#include "src/runtime/host/blas.h"

// What kernels cost on a CPU, done for real on memory of their own: activations are the runtime's
// affair, and their values do not matter, only that they are random and never zeros.
//
//   matrix products    OpenBLAS, of the kernel's shape, one after the other if it is a batch
//   attention          as many floating-point operations in products of blocks
//   memory-bound       reads and writes as many bytes
//
// The CPU computes in FP32 whatever the kernel's type is, so a product in bf16 moves twice the
// bytes here. Memory-bound kernels move the bytes that they say.
namespace stepcast::runtime::host {

// The memory that kernels work on when no buffer of the program gives them values: operands that
// all streams read, and results for each stream. It is as large as the largest product needs;
// memory-bound kernels go round in at most kWindow of it, which is more than caches hold.
class KernelWork {
 public:
  static constexpr Bytes kWindow = MiB(64);

  // Fails, out of memory, when the operands do not fit into `limit` or the system has no more;
  // names the kernel. OpenBLAS is looked for only when there is something to multiply.
  static Attempt<KernelWork> Make(const program::Program& program, Bytes limit, std::uint64_t seed);

  KernelWork(KernelWork&& other) noexcept;
  KernelWork& operator=(KernelWork&&) = delete;
  ~KernelWork();

  // The product or products of a kGemm kernel. Returns the last result, m x n floats.
  const float* Multiply(const Kernel& kernel, std::uint16_t stream) const;
  // kAttention and kAttentionGradient.
  void Attend(const Kernel& kernel, std::uint16_t stream) const;
  // Reads and writes so many bytes.
  void MoveBytes(Bytes read, Bytes written, std::uint16_t stream) const;

  Bytes size() const { return size_; }

 private:
  KernelWork() = default;

  const Blas* blas_ = nullptr;
  float* memory_ = nullptr;  // operands, then each stream's results
  Bytes size_;
  std::int64_t operands_ = 0;               // floats
  std::vector<std::int64_t> first_result_;  // by stream; floats from the begin
  std::vector<std::int64_t> results_;       // by stream; floats
};

}  // namespace stepcast::runtime::host
