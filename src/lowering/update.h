#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "src/base/kernel.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/layouts.h"
#include "src/lowering/program_builder.h"
#include "src/lowering/training_step.h"
#include "src/model/model.h"
#include "src/plan/plan.h"

namespace stepcast::lowering {

// The kernels that update parameters, and the tensors that they make on their way.

// What an update makes for each tensor that it updates: a tensor of as many numbers, of the type of
// what is updated (plan::UpdatedType).
enum class Temporary : std::uint8_t {
  kGradient,     // cast up for the master weights
  kRoot,         // of the second moment
  kDenominator,  // the root over the bias correction, plus epsilon
};
inline constexpr int kTemporaries = 3;

struct UpdateKernel {
  Kernel kernel;
  std::optional<Temporary> makes{}, works_on{};
};

// What updating `elements` of the model's parameters runs, in order (torch/optim/adamw.py, sgd.py).
//  * fused: one kernel; each operand crosses memory once (torch.optim with fused=True).
//  * foreach: PyTorch's default chain of multi-tensor kernels. For AdamW eight of them, 80 bytes a
//    parameter in FP32, 40 in 16 bits, with the root as the one temporary. Before torch 2.1 the first moment took
//    two kernels, not one of lerp (pytorch/pytorch pull request 104796): 88 bytes; and the
//    denominator was a temporary of its own beside the root (104898).
//  * LAMB (Apex's FusedLAMB; with 16 bits the one of NVIDIA/DeepLearningExamples@729963dd
//    PyTorch/LanguageModeling/BERT/lamb_amp_opt, which takes gradients as they are): norm of all
//    gradients, norms of the tensors, moments and update, which takes the gradient's place, norms
//    of updates, parameters. In fp16 the gradient scaler looks for infinities first.
//  * single: the same chain for one tensor after the other (foreach=False): UpdateKernels is then
//    called for each. Root and denominator are two temporaries in all releases.
// The update works on FP32 master weights where there are any: the gradient is read in its own type
// and the parameters are written back as a cast. Where the parameters of 16 bits hold one half of
// the master weights and the optimizer the other (fp16_remainder), both are read and written.
// Without master weights all are of the parameters' type, moments of optimizer_state_dtype. A layer
// list runs its given time, scaled to the share of the elements.
std::vector<UpdateKernel> UpdateKernels(const model::Model& model, const plan::Training& training,
                                        Version torch, std::int64_t elements);

// What an optimizer updates on a rank.

// A tensor as the optimizer has it, not an empty one.
struct UpdatedTensor {
  int tensor = 0;  // of the model; of several behind one another the first, or -1
  std::int64_t elements = 0;
};

// How Muon puts together matrices of which ranks have rows: by all-to-alls over these ranks.
struct MatrixExchange {
  StreamId stream = 0;
  Index communicator = program::kNone;  // kNone: every rank has whole matrices
  std::int64_t ranks = 1;
};

// What the optimizer has on this rank.
struct UpdatedTensors {
  std::int64_t elements = 0;             // of all together, with padding that is updated, too
  std::vector<UpdatedTensor> tensors{};  // in the optimizer's order
  MatrixExchange exchange{};
  StreamId stream = program::Program::kComputeStream;  // that updates them
};

// The update of the parameters by an optimizer of PyTorch (torch.optim, or one that follows it).

// The optimizer's kernels on the compute stream, with the tensors that they make:
//  * foreach: for every parameter one of its size, in the parameters' order, before the kernel that
//    writes them (aten/src/ATen/native/cuda/ForeachUnaryOp.cu: empty_like of each); they go when
//    the function returns, after the last kernel.
//  * single: one parameter after the other. The root goes when the next tensor begins, the
//    denominator when the name that holds it is given to the next one's: three at most.
//  * Optimizers of other libraries: framework_update.cc, update.h.
// `uses` are the gradients read and the states written; `updates` what happens to them, said of the
// last kernel, which writes the parameters.
void WriteFrameworkUpdate(TrainingStep& step, const plan::Training& training,
                          const UpdatedTensors& updated, std::span<const program::BufferUse> uses,
                          std::span<const program::Effect> updates);

// Muon: matrices of blocks move by the momentum of their gradient, brought near to an orthogonal
// matrix by five Newton-Schulz steps (Jordan 2024). One step takes X of m x n, m <= n, to
// a X + (b A + c A A) X with A = X X^T: products of 2 m m n, 2 m m m and 2 m m n operations.

// Writes the update of the matrices (plan::TakesMuon), as WriteFrameworkUpdate; returns the tensors
// that are left to AdamW.
//  * kTorch (torch/optim/_muon.py, torch 2.9): each rank has whole matrices, and orthogonalises all
//    of them, in 16 bits; addmm copies its addend first.
//  * kMegatron (megatron/core/optimizer/muon.py, and emerging_optimizers' newton_schulz): the same
//    on FP32 values, which products read as 16 bits (--muon-fp32-matmul-prec medium); of tensor
//    parallelism each rank takes its own part for a matrix (--muon-tp-mode blockwise). Query, key
//    and value weights are apart (--muon-split-qkv); so are, here, the two parts of linear_fc1,
//    which it has as one matrix.
//  * kDion (dion/muon.py of microsoft/dion@0c205499): as many matrices of one shape as there are
//    ranks; an all-to-all brings each rank one of them as a whole, another brings the rows back,
//    three batches under way at once. Batches that are not full are filled up. Experts, of which
//    each rank has whole ones, are not exchanged. Kernels around the products are compiled.
UpdatedTensors WriteMuonUpdate(TrainingStep& step, const plan::Training& training,
                               const UpdatedTensors& updated,
                               std::span<const program::BufferUse> uses);

// Writes the update of an optimizer that goes through tensors one after another, with temporary
// tensors between its kernels.

class UpdateLoop {
 public:
  // Kernels run on `stream`. `uses`: gradients and states; `updates`: what happens to them, said of
  // the last kernel.
  UpdateLoop(TrainingStep& step, StreamId stream, std::span<const program::BufferUse> uses,
             std::span<const program::Effect> updates);

  // Runs `body`, which calls what stands below, twice: first to count its kernels, of which the
  // first and the last name all of `uses` (stream order is between them).
  template <typename Body>
  void Write(const Body& body) {
    counting_ = true;
    body();
    counting_ = false;
    body();
  }

  // A temporary tensor of the stream; kNone while kernels are counted.
  Index Make(Bytes size);
  void Free(Index buffer);

  // A kernel that memory bounds. `name` is a literal. `temporaries`: what it reads or writes.
  void Run(const char* name, DataType type, Bytes read, Bytes written,
           std::initializer_list<Index> temporaries = {});
  // `batch` products of [m, k] and [k, n], of elements of `size` bytes in memory; with `adds` the
  // outcome is added to what is there.
  struct Product {
    const char* name;
    std::int64_t batch = 1, m = 0, n = 0, k = 0;
    std::int64_t size = 2;
    bool adds = false;
    ProductLayout layout = ProductLayout::kForward;
  };
  void Multiply(const Product& product, std::initializer_list<Index> temporaries);

  // The host waits until all that was issued on the stream is done.
  void AwaitOnHost();

  // An all-to-all of `bytes` of each rank, itself included, from one temporary to another, once the
  // update's stream has come this far. Returns the event for Await; kNone while kernels are
  // counted.
  Index Exchange(StreamId stream, Index communicator, Bytes bytes, Index source, Index target);
  // The update's stream waits for it.
  void Await(Index event);

 private:
  // Counts a kernel, or writes it.
  template <typename Add>
  void RunKernel(
      const std::tuple<const char*, std::int64_t, std::int64_t, std::int64_t, std::int64_t>& key,
      const Add& add, std::initializer_list<Index> temporaries);

  ProgramBuilder& builder_;
  const StreamId stream_;
  const std::span<const program::BufferUse> uses_;
  const std::span<const program::Effect> updates_;
  bool counting_ = false;
  std::int64_t kernels_ = 0, written_ = 0;
  program::NameParts temporary_name_;
  std::map<std::int64_t, std::vector<Index>> free_;  // buffers by size
  std::vector<Index> free_events_;
  Index read_by_host_ = program::kNone;
  // Kernels by name and what tells them apart.
  std::map<std::tuple<const char*, std::int64_t, std::int64_t, std::int64_t, std::int64_t>, Index>
      known_;
};

// The end of a step: gradients are clipped, if the plan asks for it, and an optimizer of PyTorch
// updates what this rank has of the parameters. What it works on is put together first.

class ParameterUpdate {
 public:
  explicit ParameterUpdate(TrainingStep& step) : ParameterUpdate(step, step.plan().training) {}
  // `training`: what the optimizer works on, as opposed to the plan's types.
  ParameterUpdate(TrainingStep& step, const plan::Training& training)
      : step_(step), builder_(step.builder()), training_(training) {
    gradients_.reserve(step.model().tensors.size() + 64);
  }

  void ReadsGradients(const Range& range) { gradients_.push_back(Reads(range)); }
  // Parameters and the optimizer's states.
  void WritesState(const Range& range) { states_.push_back(Writes(range)); }
  // `elements` of the model lie there; the optimizer's arrays are `stride` elements after one
  // another. `counted` and `group`: see ClippedRange.
  void Updates(const program::Elements& parameters, const program::Elements& gradients,
               const program::Elements& states, std::int64_t stride, std::int64_t elements,
               bool counted = true, model::ParameterGroup group = model::ParameterGroup::kDense) {
    if (!builder_.describes_data_flow() || elements == 0) return;
    clipped_.push_back({gradients, elements, counted, group});
    AppendJoined(updates_, OptimizerUpdate(parameters, gradients, states, stride, elements));
  }

  // Clips the gradients. Once.
  void Clip(GradientClipping& clipping, std::int64_t gradient_tensors, DataType type,
            std::int64_t elements) {
    clipping.Write(gradient_tensors, elements, type, gradients_, clipped_);
  }

  // Updates parameters with gradients that are clipped, if they are to be. Once.
  void Write(const UpdatedTensors& updated);
  // Both. The framework has the gradients in `gradient_tensors` tensors of `type`.
  void Write(GradientClipping& clipping, std::int64_t gradient_tensors, DataType type,
             const UpdatedTensors& updated);

 private:
  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Training& training_;
  std::vector<program::BufferUse> gradients_, states_;
  std::vector<ClippedRange> clipped_;
  std::vector<program::Effect> updates_;
};

}  // namespace stepcast::lowering
