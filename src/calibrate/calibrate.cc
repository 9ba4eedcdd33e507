#include "src/calibrate/calibrate.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/calibrate/campaign.h"
#include "src/calibrate/collective_measurements.h"
#include "src/calibrate/copy_measurements.h"
#include "src/calibrate/groups.h"
#include "src/calibrate/kernel_measurements.h"
#include "src/calibration/plausible.h"

namespace stepcast::calibrate {
namespace {

using calibration::Calibration;
using runtime::Attempt;
using runtime::Failure;

Attempt<void> MeasurePart(Campaign& campaign, Part part) {
  using program::CopyDirection;
  calibration::CopyCurves& copies = campaign.outcome.profile.copies;
  Attempt<void> done;
  switch (part) {
    case Part::kLaunch:
      return MeasureLaunch(campaign);
    case Part::kMemory:
      return MeasureMemory(campaign);
    case Part::kGemm:
      for (const DataType type : campaign.Types()) {
        for (const ProductLayout layout : campaign.options.layouts) {
          // Tensor cores multiply fp8 in the forward's layout alone.
          if (type == DataType::kFp8 && layout != ProductLayout::kForward) continue;
          if (done) done = MeasureGemm(campaign, type, layout);
        }
      }
      if (done) done = MeasureSustainedClock(campaign);
      return done;
    case Part::kAttention:
      for (const DataType type : campaign.Types()) {
        for (const KernelKind kind : {KernelKind::kAttention, KernelKind::kAttentionGradient}) {
          if (done) done = MeasureAttention(campaign, type, kind);
        }
      }
      return done;
    case Part::kOptimizer:
      return MeasureOptimizer(campaign);
    case Part::kCopies:
      done = MeasureCopies(campaign, CopyDirection::kHostToDevice, copies.host_to_device);
      if (done) done = MeasureCopies(campaign, CopyDirection::kDeviceToHost, copies.device_to_host);
      if (done)
        done = MeasureCopies(campaign, CopyDirection::kDeviceToDevice, copies.device_to_device);
      if (done) done = MeasureBothWays(campaign);
      return done;
    case Part::kCollectives:
      return MeasureCollectives(campaign);
    case Part::kInterference:
      return MeasureInterference(campaign);
  }
  return done;
}

void NoteHealth(Campaign& campaign, const char* when) {
  if (!campaign.options.health) return;
  const std::optional<runtime::DeviceHealth> health = campaign.options.health();
  if (!health) return;
  std::string text = fmt::format("{} MHz, {} of {} W, {} C", health->clock_mhz, health->watts,
                                 health->limit_watts, health->celsius);
  if (!health->slowed_by.empty()) {
    text += fmt::format(", slowed by: {}", fmt::join(health->slowed_by, ", "));
  }
  campaign.outcome.profile.provenance.emplace_back(when, std::move(text));
}

void NoticeDrift(Campaign& campaign) {
  constexpr double kAllowed = 0.05;
  const auto [least, most] =
      std::minmax_element(campaign.reference.begin(), campaign.reference.end());
  const double drift = *most / *least - 1;
  auto& provenance = campaign.outcome.profile.provenance;
  provenance.emplace_back("drift",
                          fmt::format("the same kernel took up to {:.1f} % longer in the course of "
                                      "the calibration",
                                      100 * drift));
  if (drift > kAllowed) {
    campaign.outcome.warnings.push_back(fmt::format(
        "the same kernel took up to {:.0f} % longer in the course of the calibration: the machine "
        "lowers its clocks, or does something else; measure again when it is quiet",
        100 * drift));
  }
}

void Describe(Campaign& campaign) {
  Calibration& profile = campaign.outcome.profile;
  profile.name = campaign.options.name;
  if (!campaign.options.gpu.empty()) profile.gpus = {campaign.options.gpu};
  profile.provenance = campaign.options.machine;
  const int nodes =
      1 + *std::max_element(campaign.node_of_rank.begin(), campaign.node_of_rank.end());
  profile.provenance.emplace_back(
      "ranks", fmt::format("{} on {} node{}", campaign.ranks(), nodes, nodes == 1 ? "" : "s"));
  profile.provenance.insert(profile.provenance.end(), campaign.options.run.begin(),
                            campaign.options.run.end());
  profile.provenance.emplace_back(
      "method", fmt::format("{} medians of repeated operations, each timed by the runtime in step "
                            "programs; collectives in fp32, averaged",
                            IsCoarse(campaign.options) ? "quick:" : "thorough:"));
}

Attempt<Outcome> Run(Campaign& campaign) {
  Describe(campaign);
  NoteHealth(campaign, "device_before");
  if (auto measured = MeasureReference(campaign); !measured)
    return tl::unexpected(measured.error());
  for (const Part part : kParts) {
    // Kernels cannot be priced without the cost of starting them, and hardly without memory.
    const bool needed = part == Part::kLaunch || part == Part::kMemory;
    if (!campaign.Wants(part) && !(needed && campaign.WantsKernels())) continue;
    if (auto measured = MeasurePart(campaign, part); !measured)
      return tl::unexpected(measured.error());
    if (auto measured = MeasureReference(campaign); !measured)
      return tl::unexpected(measured.error());
  }
  campaign.outcome.profile.residuals = campaign.residuals.Take();
  NoteHealth(campaign, "device_after");
  NoticeDrift(campaign);
  const std::vector<calibration::Fault> faults = calibration::Check(campaign.outcome.profile);
  if (!faults.empty()) {
    return tl::unexpected(Failure{fmt::format("what was measured cannot be: {}: {}",
                                              faults.front().field, faults.front().message),
                                  false});
  }
  return std::move(campaign.outcome);
}

std::string Binding(const Options& options, const std::vector<std::string>& places) {
  std::string binding = IsCoarse(options) ? "quick" : "thorough";
  for (const auto& [key, value] : options.machine) binding += fmt::format("; {}: {}", key, value);
  for (const DataType type : options.types) binding += fmt::format("; {}", Name(type));
  return fmt::format("{}; ranks on {}", binding, fmt::join(places, ", "));
}

}  // namespace

std::string_view Name(Part part) {
  switch (part) {
    case Part::kLaunch:
      return "launch";
    case Part::kMemory:
      return "memory";
    case Part::kGemm:
      return "gemm";
    case Part::kAttention:
      return "attention";
    case Part::kOptimizer:
      return "optimizer";
    case Part::kCopies:
      return "copies";
    case Part::kCollectives:
      return "collectives";
    case Part::kInterference:
      return "interference";
  }
  return "";
}

std::optional<Part> PartFromName(std::string_view name) {
  for (const Part part : kParts) {
    if (Name(part) == name) return part;
  }
  return std::nullopt;
}

Attempt<Outcome> Calibrate(runtime::Job& job, const Runner& runner, const Options& given) {
  Options options = given;
  if (!options.elapsed) {
    options.elapsed = [begin = std::chrono::steady_clock::now()] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
  }
  // Where all ranks are.
  const runtime::Place& place = job.place();
  const auto gathered = job.Gather(fmt::format("{} {}", place.node, place.host));
  if (!gathered) return tl::unexpected(gathered.error());
  MeasurementState state("");
  std::string told;  // "refused <why>", or the nodes of all ranks
  if (place.rank == 0) {
    std::vector<std::string> nodes;
    for (const std::string& text : *gathered) nodes.push_back(text.substr(0, text.find(' ')));
    told = fmt::format("{}", fmt::join(nodes, " "));
    const std::string binding = Binding(options, *gathered);
    state = MeasurementState(binding);
    if (!options.state.empty()) {
      auto before = MeasurementState::Parse(options.state);
      if (!before) {
        told = "refused it is not the state of a calibration, or is damaged";
      } else if (before->binding() != state.binding()) {
        told = fmt::format("refused it was made elsewhere, or with other options: {}",
                           before->binding());
      } else {
        state = *std::move(before);
      }
    }
  }
  const auto heard = job.Broadcast(told);
  if (!heard) return tl::unexpected(heard.error());
  constexpr std::string_view kRefused = "refused ";
  if (heard->starts_with(kRefused)) {
    Outcome outcome;
    outcome.refused = heard->substr(kRefused.size());
    return outcome;
  }
  std::vector<int> node_of_rank;
  for (const char* at = heard->data(); at < heard->data() + heard->size();) {
    int node = 0;
    at = std::from_chars(at, heard->data() + heard->size(), node).ptr + 1;
    node_of_rank.push_back(node);
  }
  for (const int size : options.group_sizes) {
    Outcome outcome;
    for (const GroupShape& shape : ShapesOf(node_of_rank)) outcome.groups_of.push_back(shape.ranks);
    std::vector<int>& sizes = outcome.groups_of;
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    if (std::find(sizes.begin(), sizes.end(), size) != sizes.end()) continue;
    outcome.no_group_of = size;
    return outcome;
  }
  Session session(job, runner, std::move(state), options.observer);
  Campaign campaign(session, options, std::move(node_of_rank));
  return Run(campaign);
}

}  // namespace stepcast::calibrate
