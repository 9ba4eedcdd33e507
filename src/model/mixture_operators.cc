#include "src/model/mixture_operators.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/operator_name.h"

namespace stepcast::model {
namespace {

using Pieces = std::vector<LayerTape::Piece>;

}  // namespace

MixtureOperators::MixtureOperators(LayerOperators& operators, const Experts& experts,
                                   const Modules& modules)
    : operators_(operators),
      tape_(*operators.tape_),
      work_(operators.options_),
      options_(operators.options_.experts),
      experts_(experts),
      modules_(modules) {}

parallel::AxisSet MixtureOperators::ranks_and_parts() const {
  parallel::AxisSet axes = parallel::kExpert;
  if (options_.tensor > 1) axes = axes | parallel::Axis::kExpertTensor;
  return axes;
}

Bytes MixtureOperators::RowBytes(std::int64_t rows) const {
  return operators_.BytesOfElements(rows * width_);
}

std::int64_t MixtureOperators::sent_rows() const {
  const double part = options_.fixed_rows ? options_.load : kept();
  return std::llround(static_cast<double>(rows_of_tokens()) * part);
}

std::int64_t MixtureOperators::received_rows() const {
  return std::llround(static_cast<double>(rows_of_tokens()) * options_.load);
}

std::int64_t MixtureOperators::exchanged_rows() const {
  const std::int64_t most = std::max(sent_rows(), received_rows());
  return (most + options_.ranks - 1) / options_.ranks * options_.ranks;
}

double MixtureOperators::share_of_model() const {
  if (options_.implementation != ExpertImplementation::kDeepSpeed) {
    return 1 / std::max(options_.load, 1.0);
  }
  return std::min(1.0, static_cast<double>(rows_of_tokens()) / static_cast<double>(slots()));
}

Bytes MixtureOperators::WeightBytes(std::int64_t rows) const {
  return options_.weighs_in_activation() ? Bytes(rows * kFp32Size) : Bytes();
}

Kernel MixtureOperators::Small(std::string_view name, Bytes read, Bytes written) const {
  return operators_.Memory(std::string(name), 0, read, written);
}

void MixtureOperators::Repeat(bool forward, std::int64_t times, const Kernel& kernel,
                              const Pieces& reads, const Pieces& writes) {
  for (std::int64_t i = 0; i < times; ++i) operators_.RunIn(forward, kernel, reads, writes);
}

void MixtureOperators::RunBeside(const std::function<void()>& operators) {
  if (operators == nullptr) return;
  tape_.BeginLane();
  operators();
  tape_.EndLane();
}

Operand MixtureOperators::Run(const Operand& token, const Operand& x, Beside beside) {
  beside_ = std::move(beside);
  tokens_ = x.tokens;
  width_ = x.width;
  if (options_.implementation == ExpertImplementation::kDeepSpeed) return RunSlots(token, x);
  Route(token);
  if (options_.implementation == ExpertImplementation::kTransformers) return RunTransformers(x);
  if (SendsTokensOnce(options_.dispatcher) && divided()) {
    const Rows rows = DispatchOnce(x);
    return CombineOnce(RunExperts(rows), x);
  }
  if (options_.dispatcher == Dispatcher::kAllGather && divided()) {
    const Rows rows = DispatchToAll(x);
    return CombineFromAll(RunExperts(rows), x);
  }
  Count();
  const Rows rows = Dispatch(Permute(x));
  return Combine(RunExperts(rows), x);
}

}  // namespace stepcast::model
