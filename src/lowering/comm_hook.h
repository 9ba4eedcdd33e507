#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/training_step.h"

// PyTorch's communication hooks, which replace the all-reduce of a full DDP bucket
// (torch/distributed/algorithms/ddp_comm_hooks @ v1.13.1).
//  * fp16_compress, bf16_compress: the compute stream casts the bucket and divides the copy by the
//    number of ranks. The copy is all-reduced, and another stream writes it back to the bucket.
//  * powerSGD: the compute stream adds the previous step's error to the bucket, stores a copy of
//    the bucket, packs the uncompressed tensors, orthogonalizes the last step's Q and computes P =
//    M Q for every matrix M. Another stream then executes, in order: all-reduce of the uncompressed
//    tensors, all-reduce of all P, orthogonalization of P, Q = M^T P, all-reduce of Q, M = P Q^T.
//    The host waits until the device has finished all work, including backward so far
//    (torch.cuda.synchronize). FP32 Q of rank 3 and more is orthogonalized by a QR factorization,
//    which is priced as reading and writing the matrix (a lower bound).
//
// In PyTorch, the continuations of a future run on separate streams. In this model, the
// continuations share one stream, `comm hook`.
namespace stepcast::lowering {

class CommHook {
 public:
  explicit CommHook(TrainingStep& step);

  bool active() const { return hook_ != plan::CommHook::kNone; }

  // Write the hook's buffers and kernels. Call these functions in the prologue. `reduction` is the
  // stream of the communicator. `buffer` stores the bucket's `tensors` contiguously, in `type`.
  void WritePrologue(StreamId reduction, Index communicator);
  void AddBucket(Index buffer, std::span<const int> tensors, DataType type);

  // Reduces the bucket. Call this function after the last write to the bucket on the compute
  // stream. Records the event `reduced` when the average is ready.
  void Run(std::size_t bucket, Index reduced);
  // Frees the hook's memory for the bucket. Call this function after the compute stream has waited
  // for `reduced`.
  void Release(std::size_t bucket);

 private:
  // A compressed matrix, with the kernels that compress it.
  struct Matrix {
    Bytes offset{}, size{};      // position in the bucket
    Bytes p_offset{}, p_size{};  // position in P
    Bytes q_offset{}, q_size{};  // position in Q
    std::vector<Index> orthogonal_p, orthogonal_q;
    Index make_p = program::kNone, make_q = program::kNone, restore = program::kNone;
  };
  // A tensor that powerSGD does not compress.
  struct Rest {
    Bytes offset{}, size{};  // position in the bucket
    Bytes at{};              // position in the packed buffer of uncompressed tensors
    Index copy_back = program::kNone;
  };
  struct HookedBucket {
    Index values = program::kNone;  // index of a buffer
    DataType type = DataType::kFp32;
    // Buffers and kernels of fp16_compress and bf16_compress:
    Index sent = program::kNone;  // buffer; in powerSGD, for uncompressed tensors
    Index compress = program::kNone, divide = program::kNone, restore = program::kNone;
    Index all_reduce = program::kNone;
    Index ready = program::kNone;  // index of an event
    // Buffers and kernels of powerSGD:
    std::vector<Matrix> matrices;
    std::vector<Rest> rests;
    Index error = program::kNone, copy = program::kNone;  // indices of buffers
    Index p = program::kNone, q = program::kNone;         // indices of buffers
    Index add_error = program::kNone, keep_copy = program::kNone, subtract = program::kNone;
    Index collect = program::kNone, divide_rest = program::kNone, divide_q = program::kNone;
    Index reduce_p = program::kNone, reduce_q = program::kNone;
  };

  void AddCasts(HookedBucket& bucket);
  void AddFactors(HookedBucket& bucket, std::span<const int> tensors);
  std::vector<Index> AddOrthogonalisation(std::int64_t rows, std::int64_t rank, DataType type);
  Index AddKernel(const char* name, DataType type, Bytes read, Bytes written);
  Index AddProduct(const char* name, DataType type, std::int64_t m, std::int64_t n, std::int64_t k);
  void RunCasts(HookedBucket& bucket, Index reduced);
  void RunFactors(HookedBucket& bucket, Index reduced);
  // Issues `collective` on `buffer` after the earlier work on stream `after`. Later work on `after`
  // waits for the collective.
  void Reduce(HookedBucket& bucket, StreamId after, Index collective, Index buffer);

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::CommHook hook_;
  const plan::PowerSgd& settings_;
  StreamId reduction_ = 0, stream_ = 0;
  Index communicator_ = program::kNone;
  Index all_done_ = program::kNone;  // index of an event
  std::vector<HookedBucket> buckets_;
};

}  // namespace stepcast::lowering
