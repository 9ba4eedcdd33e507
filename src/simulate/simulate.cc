#include "src/simulate/simulate.h"

#include <utility>

#include "src/simulate/run.h"
#include "src/simulate/solo_run.h"

namespace stepcast::simulate {
namespace {

bool RunsAlone(std::span<const RankClass> classes, const Options& options) {
  return classes.size() == 1 && !options.barrier && options.carriage == nullptr;
}

}  // namespace

Simulator::Simulator() : run_(std::make_unique<ProgramRun>()), solo_(std::make_unique<SoloRun>()) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

tl::expected<std::span<const program::Timeline>, Deadlock> Simulator::Run(
    std::span<const RankClass> classes, const Options& options) {
  was_solo_ = RunsAlone(classes, options);
  if (!was_solo_) return run_->Go(classes, options);
  return std::span<const program::Timeline>(&solo_->Go(classes.front(), options), 1);
}

const Repetition* Simulator::repetition() const {
  return was_solo_ ? solo_->repetition() : nullptr;
}

std::span<const Time> Simulator::segment_begins() const {
  return was_solo_ ? solo_->segment_begins() : std::span<const Time>();
}

std::span<const EndRecord> Simulator::ends() const {
  return was_solo_ ? solo_->ends() : std::span<const EndRecord>();
}

std::span<const KernelRow> Simulator::rows() const {
  return was_solo_ ? solo_->rows() : std::span<const KernelRow>();
}

void Simulator::Expand(const KernelRow& row, std::vector<KernelRun>& kernels) const {
  solo_->Expand(row, kernels);
}

void Simulator::AddDurations(const KernelRow& row, std::span<Time> by_kernel) const {
  solo_->AddDurations(row, by_kernel);
}

tl::expected<std::vector<program::Timeline>, Deadlock> Simulate(std::span<const RankClass> classes,
                                                                const Options& options) {
  if (RunsAlone(classes, options)) {
    SoloRun run;
    run.Go(classes.front(), options);
    std::vector<program::Timeline> timelines;
    timelines.push_back(run.Take());
    return timelines;
  }
  ProgramRun run;
  const auto timelines = run.Go(classes, options);
  if (!timelines.has_value()) return tl::unexpected(timelines.error());
  return run.Take();
}

}  // namespace stepcast::simulate
