#include "src/calibration/filled.h"

#include <algorithm>

namespace stepcast::calibration {

std::vector<std::string_view> MissingSections(const Calibration& profile) {
  std::vector<std::string_view> sections;
  if (!profile.kernels.has_value()) sections.emplace_back("kernels");
  if (!profile.links.has_value()) sections.emplace_back("links");
  if (!profile.memory.has_value()) sections.emplace_back("memory");
  return sections;
}

std::vector<std::string> FillFrom(const Calibration& defaults, Calibration& profile) {
  const std::vector<std::string_view> sections = MissingSections(profile);
  std::vector<std::string> taken(sections.begin(), sections.end());
  if (profile.kernels.has_value() && profile.kernels->measured() && defaults.kernels.has_value()) {
    const KernelCosts measured = *profile.kernels;
    for (std::string& key : Complete(*defaults.kernels, *profile.kernels)) {
      taken.push_back("kernels." + std::move(key));
    }
    for (const KernelRelease& release : defaults.kernel_releases) {
      profile.kernel_releases.push_back({release.torch, measured});
      Complete(release.costs, profile.kernel_releases.back().costs);
    }
  }
  if (!profile.kernels.has_value()) {
    profile.kernels = defaults.kernels;
    profile.kernel_releases = defaults.kernel_releases;
  }
  if (!profile.links.has_value()) {
    profile.links = defaults.links;
    profile.collective_law = defaults.collective_law;
    profile.curves = defaults.curves;
  }
  if (!profile.memory.has_value()) profile.memory = defaults.memory;
  if (profile.frameworks == nullptr) profile.frameworks = defaults.frameworks;
  for (const Residual& residual : defaults.residuals) {
    const bool general = residual.of == "source" || residual.of == "memory";
    const bool stated = std::any_of(profile.residuals.begin(), profile.residuals.end(),
                                    [&](const Residual& own) { return own.of == residual.of; });
    if (general && !stated) profile.residuals.push_back(residual);
  }
  return taken;
}

}  // namespace stepcast::calibration
