#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/collective_kind.h"
#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"
#include "src/parallel/axis.h"

// Cross entropy of logits, over the whole vocabulary or a rank's part.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

}  // namespace

// One cross entropy, as WorkOptions::loss computes it.
class LayerOperators::LossOfLogits {
 public:
  LossOfLogits(LayerOperators& operators, const Operand& logits, std::string_view module)
      : operators_(&operators), tape_(operators.tape_), logits_(logits), module_(module) {}

  // Each function records one way to compute the loss, with its backward. Call one of them once.
  void RecordInPlace();
  void RecordFused();
  void RecordLogSoftmax();

 private:
  const WorkOptions& options() const { return operators_->options_; }
  // Whether the vocabulary is divided among ranks.
  bool divided() const { return options().tensor > 1; }
  // Whether the logits are DTensors (PyTorch's loss_parallel), as they are where sequences are
  // divided.
  bool of_dtensors() const { return divided() && options().divides_sequences; }
  // Whether logits have 16 bits and are cast.
  bool casts() const { return operators_->element_ != DataType::kFp32; }
  bool keeps_logits() const { return options().loss == Loss::kHuggingFace; }
  std::int64_t tokens() const { return operators_->tokens_; }
  std::int64_t elements() const { return Elements(logits_); }
  Bytes LogitsBytes() const { return operators_->Size(logits_); }
  // Bytes of all logits in FP32, of one FP32 number per token, and of the tokens' targets with
  // their logits.
  Bytes WideBytes() const { return Bytes(elements() * kFp32Size); }
  Bytes RowBytes() const { return Bytes(tokens() * kFp32Size); }
  Bytes TargetBytes() const { return Bytes(tokens() * (kIndexSize + kFp32Size)); }

  Kernel Fp32Kernel(std::string_view suffix, std::int64_t flops, Bytes read, Bytes written) const {
    Kernel kernel = operators_->Memory(Joined(module_, suffix), flops, read, written);
    kernel.data_type = DataType::kFp32;
    return kernel;
  }
  Kernel UpcastKernel() const {
    return operators_->Eager(Access::kWidening, Fp32Kernel(".cast", 0, LogitsBytes(), WideBytes()));
  }
  // One number per token that a kernel computes from `from`, reading `read` bytes, and that the
  // ranks reduce.
  std::optional<Value> AgreedRow(std::string_view suffix, std::int64_t flops, Bytes read,
                                 Bytes written, Value from) {
    return operators_->AgreedRows(Fp32Kernel(suffix, flops, read, written), from,
                                  Joined(module_, Joined(suffix, " output")), 1);
  }
  void AddUpOverRanks(Value rows) {
    tape_->Communicate({CollectiveKind::kAllReduce, parallel::Axis::kTensor, DataType::kFp32}, rows,
                       rows);
  }
  // The mean of the losses over the tokens.
  void RunMeanOfTargets(Value softmax) {
    tape_->Run(Fp32Kernel(".nll", tokens(), TargetBytes(), Bytes(kFp32Size)), {softmax}, {});
  }

  // A kernel that passes over the softmax in place. `rows`: numbers that the ranks have reduced
  // before.
  void RunInPlacePass(std::string_view suffix, Value softmax, std::optional<Value> rows);
  void RunInPlaceBackward() const;
  void RunFusedOverRanks(Value log_sum_exp);
  Value MakeLogSoftmax(Value upcast);
  void RunLogSoftmaxOverRanks(Value upcast, Value log_softmax);
  void RunLogSoftmaxBackward(Value upcast, Value log_softmax) const;

  LayerOperators* operators_;
  LayerTape* tape_;
  Operand logits_;
  std::string_view module_;
};

void LayerOperators::CrossEntropy(Operand logits, std::string_view module) {
  LossOfLogits loss(*this, logits, module);
  if (options_.loss == Loss::kInPlace) {
    loss.RecordInPlace();
  } else if (options_.loss == Loss::kFused) {
    loss.RecordFused();
  } else {
    loss.RecordLogSoftmax();
  }
}

// The 16-bit logits are not kept. FP32 logits are used without a copy.
void LayerOperators::LossOfLogits::RecordInPlace() {
  const Bytes wide = WideBytes();
  const Value softmax =
      casts() ? tape_->Make(Joined(module_, ".softmax output"), wide) : logits_.value;
  tape_->Keep(softmax);
  if (casts()) tape_->Run(UpcastKernel(), {logits_.value}, {softmax});
  const auto agreed = [&](std::string_view suffix) {
    return AgreedRow(suffix, elements(), wide, RowBytes(), softmax);
  };
  RunInPlacePass(".shift", softmax, agreed(".max"));
  std::optional<Value> target_logits;
  if (divided()) {
    target_logits = AgreedRow(".target", tokens(), TargetBytes(), TargetBytes(), softmax);
  }
  RunInPlacePass(".exp", softmax, target_logits);
  RunInPlacePass(".divide", softmax, agreed(".sum"));
  RunMeanOfTargets(softmax);
  tape_->OnBackward([loss = *this] { loss.RunInPlaceBackward(); });
}

void LayerOperators::LossOfLogits::RunInPlacePass(std::string_view suffix, Value softmax,
                                                  std::optional<Value> rows) {
  Kernel kernel = Fp32Kernel(suffix, elements(), WideBytes(), WideBytes());
  if (rows) {
    tape_->Run(std::move(kernel), {softmax, *rows}, {});
  } else {
    tape_->Run(std::move(kernel), {softmax}, {});
  }
}

// The kept value is not a temporary of the backward; its gradient overwrites it.
void LayerOperators::LossOfLogits::RunInPlaceBackward() const {
  Kernel gradient = Fp32Kernel(".dgrad", elements(), WideBytes(), WideBytes());
  if (casts()) {
    tape_->RunBackward(std::move(gradient), {}, {});
    gradient = Fp32Kernel(".cast.dgrad", 0, WideBytes(), LogitsBytes());
  }
  tape_->Deliver(logits_.value, tape_->RunToGradient(logits_.value, std::move(gradient), {}));
}

void LayerOperators::LossOfLogits::RecordFused() {
  tape_->Keep(logits_.value);
  const Value log_sum_exp = tape_->Make(Joined(module_, ".log-sum-exp"), RowBytes());
  tape_->Keep(log_sum_exp);
  if (divided()) {
    RunFusedOverRanks(log_sum_exp);
  } else {
    tape_->Run(
        Fp32Kernel("", kSoftmaxFlops * elements(), 2 * LogitsBytes() + TargetBytes(), RowBytes()),
        {logits_.value}, {log_sum_exp});
  }
  tape_->OnBackward([loss = *this] {
    LayerTape& tape = *loss.tape_;
    const Value logits = loss.logits_.value;
    const Value d_logits = loss.options().donates_logits ? logits : tape.MakeGradient(logits);
    tape.RunBackward(loss.Fp32Kernel(".dgrad", kSoftmaxFlops * loss.elements(),
                                     loss.LogitsBytes() + loss.RowBytes() + loss.TargetBytes(),
                                     loss.LogitsBytes()),
                     {}, {d_logits});
    tape.Deliver(logits, d_logits);
  });
}

// One all-reduce sums the exponentials and the target logit.
void LayerOperators::LossOfLogits::RunFusedOverRanks(Value log_sum_exp) {
  const auto most = AgreedRow(".max", elements(), LogitsBytes(), RowBytes(), logits_.value);
  const Value sums = tape_->Make(Joined(module_, ".sum output"), 2 * RowBytes());
  tape_->Run(Fp32Kernel(".sum", (kSoftmaxFlops - 1) * elements(), LogitsBytes() + TargetBytes(),
                        2 * RowBytes()),
             {logits_.value, *most}, {sums});
  AddUpOverRanks(sums);
  tape_->Run(Fp32Kernel("", tokens(), 2 * RowBytes(), RowBytes()), {sums}, {log_sum_exp});
}

void LayerOperators::LossOfLogits::RecordLogSoftmax() {
  Value upcast = logits_.value;
  if (casts()) upcast = tape_->Make(Joined(module_, ".cast output"), WideBytes());
  if (keeps_logits()) tape_->Keep(upcast);
  if (casts()) tape_->Run(UpcastKernel(), {logits_.value}, {upcast});
  const Value log_softmax = MakeLogSoftmax(upcast);
  tape_->OnBackward(
      [loss = *this, upcast, log_softmax] { loss.RunLogSoftmaxBackward(upcast, log_softmax); });
}

LayerTape::Value LayerOperators::LossOfLogits::MakeLogSoftmax(Value upcast) {
  const Value log_softmax = tape_->Make(Joined(module_, ".log_softmax output"), WideBytes());
  tape_->Keep(log_softmax);
  if (divided()) {
    RunLogSoftmaxOverRanks(upcast, log_softmax);
    return log_softmax;
  }
  // cunn_SoftMaxForward (aten/src/ATen/native/cuda/SoftMax.cu) reads a row longer than shared
  // memory three times: for its maximum, its sum and the result.
  tape_->Run(Fp32Kernel(".log_softmax", kSoftmaxFlops * elements(), 3 * WideBytes(), WideBytes()),
             {upcast}, {log_softmax});
  RunMeanOfTargets(log_softmax);
  return log_softmax;
}

void LayerOperators::LossOfLogits::RunLogSoftmaxOverRanks(Value upcast, Value log_softmax) {
  const Bytes wide = WideBytes();
  const auto most = AgreedRow(".max", elements(), wide, RowBytes(), upcast);
  const Value sums = tape_->Make(Joined(module_, ".sum output"), RowBytes());
  if (of_dtensors()) {
    // torch/distributed/tensor/parallel/loss.py, _log_softmax runs operation by operation, each
    // with a result of its own. The function's argument lives until it returns.
    const Value shifted =
        tape_->RunTo(Joined(module_, ".shift output"), Fp32Kernel(".shift", elements(), wide, wide),
                     {upcast, *most});
    const Value exponentials = tape_->RunTo(Joined(module_, ".exp output"),
                                            Fp32Kernel(".exp", elements(), wide, wide), {shifted});
    tape_->Run(Fp32Kernel(".sum", elements(), wide, RowBytes()), {exponentials}, {sums});
    AddUpOverRanks(sums);
    tape_->Run(Fp32Kernel(".log_softmax", elements(), wide, wide), {shifted, sums, upcast},
               {log_softmax});
  } else {
    tape_->Run(Fp32Kernel(".sum", 2 * elements(), wide, RowBytes()), {upcast, *most}, {sums});
    AddUpOverRanks(sums);
    tape_->Run(Fp32Kernel(".log_softmax", 2 * elements(), wide, wide), {upcast, sums},
               {log_softmax});
  }
  const auto losses = AgreedRow(".nll", tokens(), TargetBytes(), TargetBytes(), log_softmax);
  tape_->Run(Fp32Kernel(".mean", tokens(), RowBytes(), Bytes(kFp32Size)), {*losses}, {});
}

void LayerOperators::LossOfLogits::RunLogSoftmaxBackward(Value upcast, Value log_softmax) const {
  const Bytes wide = WideBytes();
  const Value d_log = tape_->RunToGradient(
      log_softmax, Fp32Kernel(".nll.dgrad", tokens(), TargetBytes(), wide), {});
  const Value d_upcast = tape_->MakeGradient(upcast);
  if (of_dtensors()) {
    // torch/distributed/tensor/parallel/loss.py, _nll_loss_and_log_softmax_backward: exponentials,
    // their sum with the losses' gradient, and the product of that with the output's gradient. The
    // losses' gradient lives until the function returns.
    const Value exponentials = tape_->MakeScratch(wide), sums = tape_->MakeScratch(wide);
    tape_->RunBackward(Fp32Kernel(".exp.dgrad", elements(), wide, wide), {log_softmax},
                       {exponentials});
    tape_->RunBackward(Fp32Kernel(".sum.dgrad", elements(), 2 * wide, wide), {d_log, exponentials},
                       {sums});
    tape_->RunBackward(Fp32Kernel(".log_softmax.dgrad", elements(), wide, wide), {sums, d_log},
                       {d_upcast});
  } else {
    // cunn_SoftMaxBackward reads the gradient twice, for its sum and for the result.
    const Bytes reads = divided() ? 2 * wide : 3 * wide;
    tape_->RunBackward(Fp32Kernel(".log_softmax.dgrad", kSoftmaxFlops * elements(), reads, wide),
                       {d_log}, {d_upcast});
  }
  if (!casts()) {
    tape_->Deliver(logits_.value, d_upcast);
    return;
  }
  const Kernel cast = Fp32Kernel(".cast.dgrad", 0, wide, LogitsBytes());
  tape_->Deliver(logits_.value, tape_->RunToGradient(logits_.value, cast, {d_upcast}));
}

}  // namespace stepcast::model
