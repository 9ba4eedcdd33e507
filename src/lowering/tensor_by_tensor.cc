#include "src/lowering/tensor_by_tensor.h"

#include <cstdint>

#include "src/lowering/update_loop.h"
#include "src/plan/framework_style.h"
#include "src/plan/optimizer_states.h"

namespace stepcast::lowering {
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

  // In units of the tensor's FP32 values, unless another number is said.
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
  // its name is given to the update that was made of it.
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

}  // namespace

void WriteTensorByTensor(TrainingStep& step, const plan::Training& training,
                         const UpdatedTensors& updated, std::span<const program::BufferUse> uses,
                         std::span<const program::Effect> updates) {
  UpdateLoop loop(step, updated.stream, uses, updates);
  TensorUpdate tensor(step, training, loop);
  loop.Write([&] {
    for (const UpdatedTensor& each : updated.tensors) tensor.Write(each);
  });
}

}  // namespace stepcast::lowering
