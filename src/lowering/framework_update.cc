
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "src/lowering/training_step.h"
#include "src/lowering/update.h"
#include "src/plan/framework_style.h"
#include "src/plan/optimizer_states.h"

namespace stepcast::lowering {

using program::BufferUse;
using program::Category;
using program::kNone;

// Updates by optimizers of libraries other than PyTorch. They loop over the tensors in Python and
// launch kernels for each (plan::HasOwnKernels).

namespace {

// One tensor of the loop.
class TensorUpdate {
 public:
  TensorUpdate(const TrainingStep& step, const plan::Training& training, UpdateLoop& loop)
      : step_(step),
        loop_(loop),
        optimizer_(training.optimizer),
        gradient_(SizeOf(training.gradient_dtype)),
        parameter_(SizeOf(training.parameter_dtype)),
        waits_(!plan::StyleOf(step.plan().data_parallel.framework).distributed_tensors) {}

  void Write(const UpdatedTensor& updated) {
    const plan::OptimizerTensor tensor =
        plan::OptimizerTensorOf(step_.plan(), step_.model(), updated.tensor, updated.elements);
    if (optimizer_ == plan::Optimizer::kAdafactor) {
      WriteAdafactor(tensor);
    } else {
      WriteAtOnce(tensor);
    }
  }

 private:
  void WriteAtOnce(const plan::OptimizerTensor& tensor) {
    const Bytes states = plan::MomentBytes(step_.plan(), tensor);
    const Bytes parameter(tensor.elements * parameter_);
    const char* const name = optimizer_ == plan::Optimizer::kLion          ? "lion"
                             : plan::HasShortMoments(step_.plan(), tensor) ? "adamw_8bit"
                                                                           : "adamw_32bit";
    loop_.Run(name, DataType::kFp32, Bytes(tensor.elements * gradient_) + parameter + states,
              parameter + states);
    if (waits_) loop_.AwaitOnHost();
  }

  // Numbers of bytes are in units of the tensor's FP32 values, unless stated otherwise.
  void WriteAdafactor(const plan::OptimizerTensor& tensor) {
    const Bytes values(tensor.elements * 4);
    const Bytes states = plan::MomentBytes(step_.plan(), tensor);
    const auto run = [&](const char* name, std::int64_t read, std::int64_t written,
                         std::initializer_list<Index> temporaries) {
      loop_.Run(name, DataType::kFp32, Bytes(read * values.count()),
                Bytes(written * values.count()), temporaries);
    };
    const Index gradient = gradient_ < 4 ? loop_.Make(values) : program::kNone;
    const Index parameter = parameter_ < 4 ? loop_.Make(values) : program::kNone;
    const auto cast = [&](const char* name, std::int64_t from, Index to) {
      loop_.Run(name, DataType::kFp32, Bytes(tensor.elements * from), values, {to});
    };
    if (gradient_ < 4) cast("cast_gradient", gradient_, gradient);
    if (parameter_ < 4) cast("cast_parameter", parameter_, parameter);
    run("rms(parameter)", 1, 0, {});
    const Index square = loop_.Make(values);
    run("pow(gradient)", 1, 1, {square});
    const Index update = loop_.Make(values);
    run("add(epsilon)", 1, 1, {square, update});
    loop_.Free(square);
    if (tensor.matrices > 0) {
      for (const char* name : {"mean(rows)", "mean(columns)"}) {
        loop_.Run(name, DataType::kFp32, values, states, {update});
      }
      const Index outer = loop_.Make(values);
      loop_.Run("mul(factors)", DataType::kFp32, states, values, {outer});
      run("mul(gradient)", 2, 1, {outer});
      WriteStep(update, outer, values);
      loop_.Free(outer);
    } else {
      run("mul(exp_avg_sq)", 1, 1, {});
      run("add(exp_avg_sq)", 2, 1, {update});
      const Index root = loop_.Make(values);
      run("rsqrt(exp_avg_sq)", 1, 1, {root});
      run("mul(gradient)", 2, 1, {root});
      WriteStep(update, root, values);
      loop_.Free(root);
    }
    loop_.Free(update);
    if (parameter_ < 4) {
      loop_.Run("copy_parameter", DataType::kFp32, values, Bytes(tensor.elements * parameter_),
                {parameter});
      loop_.Free(parameter);
    }
    if (gradient_ < 4) loop_.Free(gradient);
  }

  // Clips the update by its root mean square and subtracts it. The tensor of squares lives until
  // its variable is assigned the update.
  void WriteStep(Index squares, Index update, Bytes values) {
    loop_.Run("rms(update)", DataType::kFp32, values, Bytes(), {squares, update});
    loop_.Run("div(update)", DataType::kFp32, values, values, {update});
    loop_.Run("mul(learning_rate)", DataType::kFp32, values, values, {update});
    const Index negated = loop_.Make(values);
    loop_.Run("neg(update)", DataType::kFp32, values, values, {update, negated});
    loop_.Run("add(parameter)", DataType::kFp32, values + values, values, {negated});
    loop_.Free(negated);
  }

  const TrainingStep& step_;
  UpdateLoop& loop_;
  const plan::Optimizer optimizer_;
  const std::int64_t gradient_, parameter_;  // bytes of a number
  const bool waits_;                         // the host, for each tensor
};

// As WriteFrameworkUpdate.
//  * adamw_8bit of bitsandbytes, and lion: one kernel a tensor, after which the host waits for the
//    device (bitsandbytes/optim/optimizer.py, Optimizer8bit.step: torch.cuda.synchronize).
//  * adamw_8bit of torchao: one compiled kernel a tensor (torchao/optim/adam.py,
//    single_param_adam).
//  * adafactor (transformers/optimization.py, Adafactor.step, without a first moment, as the
//    Trainer makes it: scale_parameter and relative_step False): some fifteen kernels a tensor, all
//    in FP32, with copies of gradients and parameters of 16 bits.
void WriteTensorByTensor(TrainingStep& step, const plan::Training& training,
                         const UpdatedTensors& updated, std::span<const program::BufferUse> uses,
                         std::span<const program::Effect> updates) {
  UpdateLoop loop(step, updated.stream, uses, updates);
  TensorUpdate tensor(step, training, loop);
  loop.Write([&] {
    for (const UpdatedTensor& each : updated.tensors) tensor.Write(each);
  });
}

std::size_t IndexOf(Temporary temporary) { return static_cast<std::size_t>(temporary); }

class Update {
 public:
  Update(TrainingStep& step, const plan::Training& training, StreamId stream)
      : step_(step),
        builder_(step.builder()),
        training_(training),
        stream_(stream),
        temporary_name_{.first = builder_.AddText("optimizer temporaries")} {}

  void OfAllAtOnce(const UpdatedTensors& updated, std::span<const BufferUse> uses,
                   std::span<const program::Effect> updates) {
    std::array<std::vector<Index>, kTemporaries> made;
    std::vector<UpdateKernel> kernels = KernelsOf(updated.elements);
    // By set of temporaries: the uses of the kernels that work on them.
    std::map<std::vector<Temporary>, UseRange> ranges;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      UpdateKernel& kernel = kernels[i];
      if (kernel.makes) {
        for (const UpdatedTensor& tensor : updated.tensors) {
          made[IndexOf(*kernel.makes)].push_back(AddTemporary(tensor.elements));
          builder_.Allocate(stream_, made[IndexOf(*kernel.makes)].back());
        }
      }
      std::vector<Temporary> temporaries;
      for (const std::optional<Temporary> temporary : {kernel.makes, kernel.works_on}) {
        if (temporary) temporaries.push_back(*temporary);
      }
      const auto [range, added] = ranges.try_emplace(temporaries);
      if (added) {
        std::vector<BufferUse> own(uses.begin(), uses.end());
        for (const Temporary temporary : temporaries) {
          for (const Index buffer : made[IndexOf(temporary)]) {
            own.push_back(builder_.WritesAll(buffer));
          }
        }
        range->second = builder_.AddUses(own);
      }
      if (i + 1 == kernels.size()) builder_.With(updates);
      builder_.Run(stream_, builder_.AddKernel(std::move(kernel.kernel)), range->second);
    }
    for (const std::vector<Index>& buffers : made) {
      for (std::size_t i = buffers.size(); i-- > 0;) builder_.Release(buffers[i]);
    }
  }

  void OneByOne(const UpdatedTensors& updated, std::span<const BufferUse> uses,
                std::span<const program::Effect> updates) {
    // Wrappers that keep master weights for PyTorch's optimizers cast all gradients first.
    std::vector<Index> gradients;
    for (const UpdatedTensor& tensor : updated.tensors) {
      const UpdateKernel& first = PartOf(tensor).kernels.front();
      if (first.makes != Temporary::kGradient) break;
      gradients.push_back(AddTemporary(tensor.elements));
      builder_.Allocate(stream_, gradients.back());
    }
    // The first and the last kernel name the buffers that all kernels use; stream order covers the
    // others.
    Index denominator = kNone;  // of the tensor before
    for (std::size_t t = 0; t < updated.tensors.size(); ++t) {
      Part& part = PartOf(updated.tensors[t]);
      std::array<Index, kTemporaries> now{kNone, kNone, kNone};
      if (!gradients.empty()) now[IndexOf(Temporary::kGradient)] = gradients[t];
      for (std::size_t i = 0; i < part.kernels.size(); ++i) {
        const UpdateKernel& kernel = part.kernels[i];
        const bool first = t == 0 && i == 0;
        const bool last = t + 1 == updated.tensors.size() && i + 1 == part.kernels.size();
        if (kernel.makes && *kernel.makes != Temporary::kGradient) {
          Index& buffer = now[IndexOf(*kernel.makes)];
          buffer = RoomFor(part, *kernel.makes, denominator);
          builder_.Allocate(stream_, buffer);
        }
        std::vector<BufferUse> own;
        if (first || last) own.assign(uses.begin(), uses.end());
        for (const std::optional<Temporary> temporary : {kernel.makes, kernel.works_on}) {
          if (temporary) own.push_back(builder_.WritesAll(now[IndexOf(*temporary)]));
        }
        if (last) builder_.With(updates);
        builder_.Run(stream_, part.added[i], own);
      }
      const Index root = now[IndexOf(Temporary::kRoot)];
      if (root != kNone) builder_.Release(root);
      if (denominator != kNone) builder_.Release(denominator);
      denominator = now[IndexOf(Temporary::kDenominator)];
    }
    if (denominator != kNone) builder_.Release(denominator);
    for (const Index gradient : gradients) builder_.Release(gradient);
  }

 private:
  // Kernels and buffers that tensors of one size share.
  struct Part {
    std::int64_t elements = 0;
    std::vector<UpdateKernel> kernels;
    std::vector<Index> added;  // the same in the program
    Index root = kNone;
    std::array<Index, 2> denominators{kNone, kNone};
  };

  std::vector<UpdateKernel> KernelsOf(std::int64_t elements) const {
    return UpdateKernels(step_.model(), training_, step_.plan().software.torch, elements);
  }

  Index AddTemporary(std::int64_t elements) {
    return builder_.AddBuffer(temporary_name_, BytesOf(elements, plan::UpdatedType(training_)),
                              Category::kWorkspace);
  }

  Part& PartOf(const UpdatedTensor& tensor) {
    const auto [found, added] = parts_.try_emplace(tensor.elements);
    Part& part = found->second;
    if (added) {
      part.elements = tensor.elements;
      part.kernels = KernelsOf(tensor.elements);
      for (const UpdateKernel& kernel : part.kernels) {
        part.added.push_back(builder_.AddKernel(kernel.kernel));
      }
    }
    return part;
  }

  // Returns a buffer other than `held`.
  Index RoomFor(Part& part, Temporary temporary, Index held) {
    Index& buffer = temporary == Temporary::kRoot                   ? part.root
                    : part.denominators[0] == held && held != kNone ? part.denominators[1]
                                                                    : part.denominators[0];
    if (buffer == kNone) buffer = AddTemporary(part.elements);
    return buffer;
  }

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Training& training_;
  const StreamId stream_;
  const program::NameParts temporary_name_;
  std::map<std::int64_t, Part> parts_;  // by elements
};

}  // namespace

void WriteFrameworkUpdate(TrainingStep& step, const plan::Training& training,
                          const UpdatedTensors& updated, std::span<const BufferUse> uses,
                          std::span<const program::Effect> updates) {
  if (!step.model().is_layer_list() && !updated.tensors.empty()) {
    if (plan::HasOwnKernels(training.optimizer)) {
      return WriteTensorByTensor(step, training, updated, uses, updates);
    }
    if (training.optimizer == plan::Optimizer::kMuon) {
      const UpdatedTensors others = WriteMuonUpdate(step, training, updated, uses);
      plan::Training adamw = training;
      adamw.optimizer = plan::Optimizer::kAdamW;
      if (!others.tensors.empty()) WriteFrameworkUpdate(step, adamw, others, uses, updates);
      return;
    }
  }
  const bool single = training.optimizer_implementation == plan::OptimizerImplementation::kSingle;
  Update update(step, training, updated.stream);
  if (single && !step.model().is_layer_list() && !updated.tensors.empty()) {
    update.OneByOne(updated, uses, updates);
  } else {
    update.OfAllAtOnce(updated, uses, updates);
  }
}

void ParameterUpdate::Write(GradientClipping& clipping, std::int64_t gradient_tensors,
                            DataType type, const UpdatedTensors& updated) {
  Clip(clipping, gradient_tensors, type, updated.elements);
  Write(updated);
}

void ParameterUpdate::Write(const UpdatedTensors& updated) {
  gradients_.insert(gradients_.end(), states_.begin(), states_.end());
  WriteFrameworkUpdate(step_, training_, updated, gradients_, updates_);
}

}  // namespace stepcast::lowering
