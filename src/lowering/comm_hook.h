#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/training_step.h"

// PyTorch's communication hooks: what DDP does with a full bucket in place of its all-reduce
// (torch/distributed/algorithms/ddp_comm_hooks @ v1.13.1).
//  * fp16_compress, bf16_compress: the compute stream casts the bucket and divides the copy by the
//    number of ranks; the copy is all-reduced; another stream writes it back to the bucket.
//  * powerSGD: the compute stream adds what was lost last time, keeps a copy, puts the tensors that
//    are not compressed behind one another, makes the last step's Q orthogonal and P = M Q of every
//    matrix M. Then one after the other on another stream: those tensors' all-reduce, that of all
//    P, which are made orthogonal, Q = M^T P, their all-reduce, M = P Q^T. The host waits until the
//    device has done all of it (torch.cuda.synchronize), and with it all of backward so far. Q of
//    rank 3 and more in FP32 are made orthogonal by a QR factorisation; its cost is that of reading
//    and writing the matrix, which is less than what it takes.
// A future's continuations run on streams of their own; here they share one, `comm hook`.
namespace stepcast::lowering {

class CommHook {
 public:
  explicit CommHook(TrainingStep& step);

  bool active() const { return hook_ != plan::CommHook::kNone; }

  // Prologue. `reduction` is the communicator's stream; `buckets` lie in `buffers` as `tensors`,
  // behind one another in `type`.
  void WritePrologue(StreamId reduction, Index communicator);
  void AddBucket(Index buffer, std::span<const int> tensors, DataType type);

  // The compute stream has filled the bucket. Records `reduced` when its average is there.
  void Run(std::size_t bucket, Index reduced);
  // The compute stream has waited for that: what the hook took for the bucket is freed.
  void Release(std::size_t bucket);

 private:
  // A matrix that is compressed, by the kernels for it.
  struct Matrix {
    Bytes offset{}, size{};      // in the bucket
    Bytes p_offset{}, p_size{};  // in P
    Bytes q_offset{}, q_size{};  // in Q
    std::vector<Index> orthogonal_p, orthogonal_q;
    Index make_p = program::kNone, make_q = program::kNone, restore = program::kNone;
  };
  // What is sent as it is.
  struct Rest {
    Bytes offset{}, size{};  // in the bucket
    Bytes at{};              // in the copy that is sent
    Index copy_back = program::kNone;
  };
  struct HookedBucket {
    Index values = program::kNone;  // buffer
    DataType type = DataType::kFp32;
    // Casts.
    Index sent = program::kNone;  // buffer, also of PowerSGD's rest
    Index compress = program::kNone, divide = program::kNone, restore = program::kNone;
    Index all_reduce = program::kNone;
    Index ready = program::kNone;  // event
    // PowerSGD.
    std::vector<Matrix> matrices;
    std::vector<Rest> rests;
    Index error = program::kNone, copy = program::kNone;  // buffers
    Index p = program::kNone, q = program::kNone;         // buffers
    Index add_error = program::kNone, keep_copy = program::kNone, subtract = program::kNone;
    Index collect = program::kNone, divide_rest = program::kNone, divide_q = program::kNone;
    Index reduce_p = program::kNone, reduce_q = program::kNone;
  };

  void AddCasts(HookedBucket& bucket);
  void AddFactors(HookedBucket& bucket, std::span<const int> tensors);
  std::vector<Index> AddOrthogonalisation(std::int64_t rows, std::int64_t rank, DataType type);
  Index AddKernel(const char* name, DataType type, Bytes read, Bytes written);
  Index AddProduct(const char* name, DataType type, std::int64_t m, std::int64_t n, std::int64_t k);
  Index AddAllReduce(Bytes bytes, DataType type);
  void RunCasts(HookedBucket& bucket, Index reduced);
  void RunFactors(HookedBucket& bucket, Index reduced);
  // The next collective of `buffer` stands behind what `after` has done, and `after` behind it.
  void Reduce(HookedBucket& bucket, StreamId after, Index collective, Index buffer);

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::CommHook hook_;
  const plan::PowerSgd& settings_;
  StreamId reduction_ = 0, stream_ = 0;
  Index communicator_ = program::kNone;
  Index all_done_ = program::kNone;  // event
  std::vector<HookedBucket> buckets_;
};

}  // namespace stepcast::lowering
