#include "src/simulate/simulate.h"

#include <utility>

#include "src/simulate/simulation.h"

namespace stepcast::simulate {

Simulator::Simulator() : simulation_(std::make_unique<Simulation>()) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

tl::expected<std::span<const program::Timeline>, Deadlock> Simulator::Run(
    std::span<const RankClass> classes, const Options& options) {
  return simulation_->Run(classes, options);
}

tl::expected<std::span<const program::Timeline>, Deadlock> Simulator::RunAgain(
    const Options& options) {
  return simulation_->RunAgain(options);
}

std::vector<program::Timeline> Simulator::Take() { return simulation_->Take(); }

const Repetition* Simulator::repetition() const { return simulation_->repetition(); }

HostInfluence Simulator::host_influence(std::size_t rank_class) const {
  return simulation_->host_influence(rank_class);
}

tl::expected<std::vector<program::Timeline>, Deadlock> Simulate(std::span<const RankClass> classes,
                                                                const Options& options) {
  Simulation simulation;
  const auto timelines = simulation.Run(classes, options);
  if (!timelines.has_value()) return tl::unexpected(timelines.error());
  return simulation.Take();
}

}  // namespace stepcast::simulate
