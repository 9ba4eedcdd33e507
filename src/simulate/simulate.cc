#include "src/simulate/simulate.h"

#include <utility>

#include "src/simulate/run.h"

namespace stepcast::simulate {

Simulator::Simulator() : run_(std::make_unique<ProgramRun>()) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

tl::expected<std::span<const program::Timeline>, Deadlock> Simulator::Run(
    std::span<const RankClass> classes, const Options& options) {
  return run_->Go(classes, options);
}

const Repetition* Simulator::repetition() const { return run_->repetition(); }

std::span<const KernelRow> Simulator::rows() const { return run_->rows(); }
void Simulator::Expand(const KernelRow& row, std::vector<KernelRun>& kernels) const {
  run_->Expand(row, kernels);
}

tl::expected<std::vector<program::Timeline>, Deadlock> Simulate(std::span<const RankClass> classes,
                                                                const Options& options) {
  ProgramRun run;
  const auto timelines = run.Go(classes, options);
  if (!timelines.has_value()) return tl::unexpected(timelines.error());
  return run.Take();
}

}  // namespace stepcast::simulate
