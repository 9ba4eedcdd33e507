#include <optional>
#include <utility>

#include "src/base/collective_kind.h"
#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"
#include "src/model/operator_sizes.h"
#include "src/parallel/axis.h"

// Cross entropy of logits, whole or a rank's part of the words.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

}  // namespace

void LayerOperators::CrossEntropy(Operand logits, std::string_view module) {
  const std::int64_t elements = Elements(logits);
  const Bytes wide = Bytes(elements * kFp32Size);
  const bool cast = element_ != DataType::kFp32;
  const Bytes targets = Bytes(tokens_ * (kIndexSize + kFp32Size));
  const auto fp32 = [this](std::string name, std::int64_t flops, Bytes read, Bytes written) {
    Kernel kernel = Memory(std::move(name), flops, read, written);
    kernel.data_type = DataType::kFp32;
    return kernel;
  };

  if (options_.loss == Loss::kInPlace) {
    // Nobody keeps the 16-bit logits. In FP32 they are their own copy.
    const Value softmax =
        cast ? tape_->Make(Joined(module, ".softmax output"), wide) : logits.value;
    tape_->Keep(softmax);
    if (cast) {
      tape_->Run(Eager(Access::kWidening, fp32(Joined(module, ".cast"), 0, Size(logits), wide)),
                 {logits.value}, {softmax});
    }
    // `rows`: what the ranks of a divided vocabulary have agreed on before.
    const auto pass = [&](const char* name, Bytes written, std::optional<Value> rows = {}) {
      Kernel kernel = fp32(Joined(module, name), elements, wide, written);
      if (rows) {
        tape_->Run(std::move(kernel), {softmax, *rows}, {});
      } else {
        tape_->Run(std::move(kernel), {softmax}, {});
      }
    };
    const auto sums = [&](const char* name) {
      return AgreedRows(fp32(Joined(module, name), elements, wide, Bytes(tokens_ * kFp32Size)),
                        softmax, Joined(module, Joined(name, " output")), 1);
    };
    pass(".shift", wide, sums(".max"));
    std::optional<Value> targets_logits;
    if (options_.tensor > 1) {
      targets_logits = AgreedRows(fp32(Joined(module, ".target"), tokens_, targets, targets),
                                  softmax, Joined(module, ".target output"), 1);
    }
    pass(".exp", wide, targets_logits);
    pass(".divide", wide, sums(".sum"));
    tape_->Run(fp32(Joined(module, ".nll"), tokens_, targets, Bytes(kFp32Size)), {softmax}, {});
    // What is kept is no temporary of the backward, and its gradient lies where it does.
    tape_->OnBackward([=, this] {
      if (!cast) {
        const Value d_logits = tape_->MakeGradient(logits.value);
        tape_->RunBackward(fp32(Joined(module, ".dgrad"), elements, wide, wide), {}, {d_logits});
        tape_->Deliver(logits.value, d_logits);
        return;
      }
      tape_->RunBackward(fp32(Joined(module, ".dgrad"), elements, wide, wide), {}, {});
      const Value d_logits = tape_->MakeGradient(logits.value);
      tape_->RunBackward(fp32(Joined(module, ".cast.dgrad"), 0, wide, Size(logits)), {},
                         {d_logits});
      tape_->Deliver(logits.value, d_logits);
    });
    return;
  }

  if (options_.loss == Loss::kFused) {
    tape_->Keep(logits.value);
    const Bytes statistics = Bytes(tokens_ * kFp32Size);
    const Value log_sum_exp = tape_->Make(Joined(module, ".log-sum-exp"), statistics);
    tape_->Keep(log_sum_exp);
    if (options_.tensor == 1) {
      tape_->Run(fp32(std::string(module), kSoftmaxFlops * elements, 2 * Size(logits) + targets,
                      statistics),
                 {logits.value}, {log_sum_exp});
    } else {
      const auto most = AgreedRows(fp32(Joined(module, ".max"), elements, Size(logits), statistics),
                                   logits.value, Joined(module, ".max output"), 1);
      const Value sums = tape_->Make(Joined(module, ".sum output"), 2 * statistics);
      tape_->Run(fp32(Joined(module, ".sum"), (kSoftmaxFlops - 1) * elements,
                      Size(logits) + targets, 2 * statistics),
                 {logits.value, *most}, {sums});
      tape_->Communicate({CollectiveKind::kAllReduce, parallel::Axis::kTensor, DataType::kFp32},
                         sums, sums);
      tape_->Run(fp32(std::string(module), tokens_, 2 * statistics, statistics), {sums},
                 {log_sum_exp});
    }
    tape_->OnBackward([=, this] {
      const Value d_logits =
          options_.donates_logits ? logits.value : tape_->MakeGradient(logits.value);
      tape_->RunBackward(fp32(Joined(module, ".dgrad"), kSoftmaxFlops * elements,
                              Size(logits) + statistics + targets, Size(logits)),
                         {}, {d_logits});
      tape_->Deliver(logits.value, d_logits);
    });
    return;
  }
  Value upcast = logits.value;
  if (options_.loss == Loss::kHuggingFace && !cast) tape_->Keep(upcast);
  if (cast) {
    upcast = tape_->Make(Joined(module, ".cast output"), wide);
    if (options_.loss == Loss::kHuggingFace) tape_->Keep(upcast);
    tape_->Run(Eager(Access::kWidening, fp32(Joined(module, ".cast"), 0, Size(logits), wide)),
               {logits.value}, {upcast});
  }
  const Value log_softmax = tape_->Make(Joined(module, ".log_softmax output"), wide);
  tape_->Keep(log_softmax);
  if (options_.tensor == 1) {
    // cunn_SoftMaxForward (aten/src/ATen/native/cuda/SoftMax.cu) reads rows that are longer than
    // shared memory three times: for their maximum, their sum and the result.
    tape_->Run(fp32(Joined(module, ".log_softmax"), kSoftmaxFlops * elements, 3 * wide, wide),
               {upcast}, {log_softmax});
    tape_->Run(fp32(Joined(module, ".nll"), tokens_, targets, Bytes(kFp32Size)), {log_softmax}, {});
  } else {
    const auto rows = [&](const char* name, std::int64_t flops) {
      return AgreedRows(fp32(Joined(module, name), flops, wide, Bytes(tokens_ * kFp32Size)), upcast,
                        Joined(module, Joined(name, " output")), 1);
    };
    const auto most = rows(".max", elements);
    const Value sums = tape_->Make(Joined(module, ".sum output"), Bytes(tokens_ * kFp32Size));
    tape_->Run(fp32(Joined(module, ".sum"), 2 * elements, wide, Bytes(tokens_ * kFp32Size)),
               {upcast, *most}, {sums});
    tape_->Communicate({CollectiveKind::kAllReduce, parallel::Axis::kTensor, DataType::kFp32}, sums,
                       sums);
    tape_->Run(fp32(Joined(module, ".log_softmax"), 2 * elements, wide, wide), {upcast, sums},
               {log_softmax});
    const auto loss = AgreedRows(fp32(Joined(module, ".nll"), tokens_, targets, targets),
                                 log_softmax, Joined(module, ".nll output"), 1);
    tape_->Run(fp32(Joined(module, ".mean"), tokens_, Bytes(tokens_ * kFp32Size), Bytes(kFp32Size)),
               {*loss}, {});
  }

  tape_->OnBackward([=, this] {
    const Value d_log = tape_->MakeGradient(log_softmax);
    tape_->RunBackward(fp32(Joined(module, ".nll.dgrad"), tokens_, targets, wide), {}, {d_log});
    const Value d_upcast = tape_->MakeGradient(upcast);
    // cunn_SoftMaxBackward reads the gradient twice, for its sum and for the result.
    const Bytes reads = options_.tensor == 1 ? 3 * wide : 2 * wide;
    tape_->RunBackward(
        fp32(Joined(module, ".log_softmax.dgrad"), kSoftmaxFlops * elements, reads, wide), {d_log},
        {d_upcast});
    if (!cast) {
      tape_->Deliver(logits.value, d_upcast);
      return;
    }
    const Value d_logits = tape_->MakeGradient(logits.value);
    tape_->RunBackward(fp32(Joined(module, ".cast.dgrad"), 0, wide, Size(logits)), {d_upcast},
                       {d_logits});
    tape_->Deliver(logits.value, d_logits);
  });
}

}  // namespace stepcast::model
