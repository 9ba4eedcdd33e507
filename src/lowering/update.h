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

// The kernels that update parameters, and their temporary tensors.

// A temporary tensor that an update makes for each parameter tensor, with the same shape, in the
// type of the updated values (plan::UpdatedType).
enum class Temporary : std::uint8_t {
  kGradient,     // gradient, cast to the type of the master weights
  kRoot,         // square root of the second moment
  kDenominator,  // root / bias correction + epsilon
};
inline constexpr int kTemporaries = 3;

struct UpdateKernel {
  Kernel kernel;
  std::optional<Temporary> makes{}, works_on{};
};

// Returns the kernels of an update of `elements` of the model's parameters, in order
// (torch/optim/adamw.py, sgd.py).
//  * fused: one kernel that reads or writes each operand once (torch.optim with fused=True).
//  * foreach: PyTorch's default sequence of multi-tensor kernels. AdamW has eight kernels: 80 bytes
//    per parameter in FP32, 40 in 16 bits, with the root as the only temporary. Before torch 2.1,
//    the first moment needed two kernels instead of one lerp (pytorch/pytorch pull request 104796):
//    88 bytes. The denominator was a second temporary, in addition to the root (104898).
//  * LAMB (Apex's FusedLAMB; with 16 bits, NVIDIA/DeepLearningExamples@729963dd
//    PyTorch/LanguageModeling/BERT/lamb_amp_opt, which reads gradients in their own type): norm of
//    all gradients, norms of the tensors, moments and update (which overwrites the gradient), norms
//    of updates, parameters. In fp16, the gradient scaler first checks for infinities.
//  * single: the same sequence, separately for each tensor (foreach=False). UpdateKernels is then
//    called for each tensor. In this sequence, root and denominator are two temporaries in all
//    releases of torch.
//
// FP32 master weights, if present, are updated: the gradient is read in its own type, and the
// parameters are written by a cast. With fp16_remainder, the 16-bit parameters contain one half of
// the master weights and the optimizer the other half; both halves are read and written. Without
// master weights, all operands have the parameters' type, and moments have the type
// optimizer_state_dtype. The update of a layer list takes the time that the list specifies, scaled
// to the fraction of the elements.
std::vector<UpdateKernel> UpdateKernels(const model::Model& model, const plan::Training& training,
                                        Version torch, std::int64_t elements);

// The tensors that an optimizer updates on one rank.

// A non-empty tensor, as seen by the optimizer.
struct UpdatedTensor {
  int tensor = 0;  // index in the model; packed tensors: index of the first, or -1
  std::int64_t elements = 0;
};

// The ranks over which Muon assembles matrices by all-to-alls, if the rows of a matrix are on
// several ranks.
struct MatrixExchange {
  StreamId stream = 0;
  Index communicator = program::kNone;  // kNone: every rank has complete matrices
  std::int64_t ranks = 1;
};

// The tensors that an optimizer updates on this rank.
struct UpdatedTensors {
  std::int64_t elements = 0;             // total, including padding that is updated
  std::vector<UpdatedTensor> tensors{};  // in the optimizer's order
  MatrixExchange exchange{};
  StreamId stream = program::Program::kComputeStream;  // the stream of the update
};

// The update of parameters by an optimizer of PyTorch (torch.optim), or by an optimizer with the
// same interface.

// Writes the optimizer's kernels and their temporary tensors:
//   - foreach: before the kernel that writes them, temporary tensors are allocated: one for each
//     parameter, of the parameter's size, in the order of the parameters (empty_like in
//     aten/src/ATen/native/cuda/ForeachUnaryOp.cu). The tensors are freed after the last kernel.
//   - single: parameters are updated one after another. The root is freed when the next tensor
//     begins. The denominator is freed when the next tensor's denominator is assigned to its name.
//     At most three temporary tensors exist.
//   - For optimizers of other libraries, see framework_update.cc.
//
// `uses` are the gradients read and the states written. `updates` are the effects of the last
// kernel, which writes the parameters.
void WriteFrameworkUpdate(TrainingStep& step, const plan::Training& training,
                          const UpdatedTensors& updated, std::span<const program::BufferUse> uses,
                          std::span<const program::Effect> updates);

// Muon updates the matrices of blocks with the momentum of their gradients, made nearly orthogonal
// by five Newton-Schulz steps (Jordan 2024). One step maps X (m x n, m <= n) to a X + (b A + c A A)
// X with A = X X^T. A step needs matrix multiplications of 2 m^2 n, 2 m^3 and 2 m^2 n operations.

// Writes the update of the matrices (plan::TakesMuon), like WriteFrameworkUpdate. Returns the
// remaining tensors, which AdamW must update.
//   - kTorch (torch/optim/_muon.py, torch 2.9): each rank has complete matrices and orthogonalizes
//     all of them in 16 bits. addmm first copies its addend.
//   - kMegatron (megatron/core/optimizer/muon.py, and emerging_optimizers' newton_schulz): the
//     values are FP32, and matrix multiplications read them as 16 bits (--muon-fp32-matmul-prec
//     medium). With tensor parallelism, each rank treats its own part as a matrix (--muon-tp-mode
//     blockwise). Query, key and value weights are separate (--muon-split-qkv). The two parts of
//     linear_fc1 are also separate, although Megatron-LM has them as one matrix.
//   - kDion (dion/muon.py of microsoft/dion@0c205499): a batch has as many matrices of one shape as
//     there are ranks. An all-to-all sends each rank one complete matrix, and another all-to-all
//     sends the rows back, with three batches in flight. Incomplete batches are padded. Experts are
//     not exchanged, because each rank has complete matrices of its experts. All kernels except
//     matrix multiplications are compiled (torch.compile).
UpdatedTensors WriteMuonUpdate(TrainingStep& step, const plan::Training& training,
                               const UpdatedTensors& updated,
                               std::span<const program::BufferUse> uses);

// Writes the update of an optimizer that loops over tensors and makes temporary tensors.

class UpdateLoop {
 public:
  // Kernels run on `stream`. `uses` are the gradients and states that the kernels read or write.
  // `updates` are the effects of the last kernel.
  UpdateLoop(TrainingStep& step, StreamId stream, std::span<const program::BufferUse> uses,
             std::span<const program::Effect> updates);

  // Runs `body` twice; `body` calls the functions below. The first run only counts the kernels, to
  // find the last kernel. The second run writes the kernels. Only the first and the last kernel
  // declare all of `uses`, because stream order protects all other kernels.
  template <typename Body>
  void Write(const Body& body) {
    counting_ = true;
    body();
    counting_ = false;
    body();
  }

  // Makes a temporary tensor on the stream. Returns kNone in the run that counts kernels.
  Index Make(Bytes size);
  void Free(Index buffer);

  // Runs a memory-bound kernel. `name` must be a literal. `temporaries` are the temporary tensors
  // that the kernel reads or writes.
  void Run(const char* name, DataType type, Bytes read, Bytes written,
           std::initializer_list<Index> temporaries = {});
  // A kernel of `batch` matrix multiplications [m, k] x [k, n]. Elements have `size` bytes in
  // memory. If `adds` is true, the result is added to the output.
  struct Product {
    const char* name;
    std::int64_t batch = 1, m = 0, n = 0, k = 0;
    std::int64_t size = 2;
    bool adds = false;
    ProductLayout layout = ProductLayout::kForward;
  };
  void Multiply(const Product& product, std::initializer_list<Index> temporaries);

  // Makes the host wait for all work issued on the stream.
  void AwaitOnHost();

  // Writes an all-to-all between two temporary tensors, after the work issued on the update's
  // stream. `bytes` is the size of a rank's data, including the part that it keeps. Returns an
  // event for Await, or kNone in the run that counts kernels.
  Index Exchange(StreamId stream, Index communicator, Bytes bytes, Index source, Index target);
  // Makes the update's stream wait for the event.
  void Await(Index event);

 private:
  // Counts a kernel in the first run, and writes it in the second run.
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
  std::map<std::int64_t, std::vector<Index>> free_;  // indexed by size: buffers
  std::vector<Index> free_events_;
  Index read_by_host_ = program::kNone;
  // The kernels added so far, by name and by the sizes that distinguish them.
  std::map<std::tuple<const char*, std::int64_t, std::int64_t, std::int64_t, std::int64_t>, Index>
      known_;
};

// The end of a step: clips gradients if the plan requires it, and updates this rank's parameters
// with an optimizer of PyTorch. Declare all ranges before you call Clip or Write.

class ParameterUpdate {
 public:
  explicit ParameterUpdate(TrainingStep& step) : ParameterUpdate(step, step.plan().training) {}
  // `training` contains the data types of the optimizer's operands, which may differ from the
  // plan's.
  ParameterUpdate(TrainingStep& step, const plan::Training& training)
      : step_(step), builder_(step.builder()), training_(training) {
    gradients_.reserve(step.model().tensors.size() + 64);
  }

  void ReadsGradients(const Range& range) { gradients_.push_back(Reads(range)); }
  // Adds a range of parameters or optimizer states.
  void WritesState(const Range& range) { states_.push_back(Writes(range)); }
  // Declares that `elements` elements of the model are stored at the locations `parameters`,
  // `gradients` and `states`. The optimizer's arrays start `stride` elements apart. For `counted`
  // and `group`, see ClippedRange.
  void Updates(const program::Elements& parameters, const program::Elements& gradients,
               const program::Elements& states, std::int64_t stride, std::int64_t elements,
               bool counted = true, model::ParameterGroup group = model::ParameterGroup::kDense) {
    if (!builder_.describes_data_flow() || elements == 0) return;
    clipped_.push_back({gradients, elements, counted, group});
    AppendJoined(updates_, OptimizerUpdate(parameters, gradients, states, stride, elements));
  }

  // Clips the gradients. Call this function once.
  void Clip(GradientClipping& clipping, std::int64_t gradient_tensors, DataType type,
            std::int64_t elements) {
    clipping.Write(gradient_tensors, elements, type, gradients_, clipped_);
  }

  // Updates parameters, from clipped gradients if Clip was called. Call this function once.
  void Write(const UpdatedTensors& updated);
  // Clips gradients and updates parameters. The framework stores the gradients in
  // `gradient_tensors` tensors of `type`.
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
