#include "src/scenario/gpu_file.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/data_type.h"
#include "src/scenario/data_root.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/source_names.h"

namespace stepcast::scenario {
namespace {

constexpr std::string_view kGpus = "topologies/gpus";
constexpr std::string_view kFileSuffix = ".yaml";

// The data sheet for a name without its form: for "h100" and "a100" that of the SXM modules; of
// several, the last by name, which has the most memory.
std::string SxmFormOf(std::string_view name, const std::vector<std::string>& known) {
  std::string form;
  for (const std::string& each : known) {
    if (each.starts_with(fmt::format("{}-sxm", name))) form = each;
  }
  return form;
}

// The name in small letters, with hyphens, and without the vendor or the brand: "h100" for "NVIDIA
// H100", "rtx-4090" for "GeForce RTX 4090".
std::string PlainName(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    plain +=
        c == ' ' || c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view brand : {"nvidia-", "amd-", "geforce-", "tesla-", "instinct-"}) {
    if (plain.starts_with(brand)) plain.erase(0, brand.size());
  }
  return plain;
}

// The names that have all parts of `plain`, in any order: a100-pcie-80gb and a100-sxm-80gb for
// "a100-80gb". Otherwise as NamesMeant.
std::vector<std::string> GpusMeant(std::string_view plain, const std::vector<std::string>& known) {
  std::vector<std::string> meant;
  for (const std::string& name : known) {
    bool all = true;
    std::string_view rest = plain;
    while (all && !rest.empty()) {
      const std::string_view part = rest.substr(0, rest.find('-'));
      all = fmt::format("-{}-", name).find(fmt::format("-{}-", part)) != std::string::npos;
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    }
    if (all) meant.push_back(name);
  }
  return meant.empty() ? NamesMeant(plain, known) : meant;
}

// As GpusMeant; if no name is near, those of the generation with the nearest name: all h100 for
// "h1000".
std::vector<std::string> GpusNear(std::string_view plain, const std::vector<std::string>& known) {
  std::vector<std::string> meant = GpusMeant(plain, known);
  if (!meant.empty()) return meant;
  std::vector<std::string_view> generations;
  for (const std::string_view name : known) generations.push_back(name.substr(0, name.find('-')));
  const std::string_view near = NearestWord(plain.substr(0, plain.find('-')), generations);
  return near.empty() ? meant : GpusMeant(near, known);
}

// Whether the name is a plain file name in that folder.
bool IsPlainName(std::string_view name) {
  return name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace

std::optional<topology::Gpu> ReadGpu(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  topology::Gpu gpu;
  reader.Required("name", gpu.name);
  if (const auto sources = reader.ReadSequence("sources", Need::kOptional)) {
    for (const Node& source : *sources) ReadText(source, diagnostics);
  }
  reader.Required("memory", gpu.memory, Zero::kRefused);
  reader.Required("memory_bandwidth", gpu.memory_bandwidth);
  reader.Optional("l2_cache", gpu.l2_cache, Zero::kRefused);
  reader.Required("multiprocessors", gpu.multiprocessors, {1, 1'000'000});
  const auto capability = reader.ReadVersion("compute_capability", Need::kOptional, "9.0");
  reader.Optional("power_limit_watts", gpu.power_limit, {1, 100'000});
  if (auto peak = reader.ReadMapping("peak", Need::kRequired)) {
    bool any = false;
    for (DataType type : kDataTypes) {
      peak->Optional(Name(type), gpu.peak[static_cast<std::size_t>(type)], Zero::kRefused);
      any = any || peak->Has(Name(type));
    }
    peak->Finish();
    if (!any) {
      reader.Report("peak", "topology.no-peak",
                    "'peak' must have the FLOP rate of at least one data type",
                    "write for example 'peak: {fp32: 67 TFLOPS, bf16: 989 TFLOPS}'");
    }
  }
  reader.Finish();
  if (reader.failed()) return std::nullopt;
  if (capability) gpu.compute_capability = 10 * capability->major + capability->minor;
  return gpu;
}

Result<topology::Gpu> LoadGpu(const std::string& path) { return LoadWith(path, ReadGpu); }

std::optional<topology::Gpu> FindGpu(std::string_view name, std::string_view folder,
                                     const Location& location, Diagnostics& diagnostics) {
  std::optional<std::string> path;
  if (name.ends_with(kFileSuffix)) {
    path = FindInput(name, folder);
  } else if (IsPlainName(name)) {
    const auto sheet = [folder](std::string_view stem) {
      return FindInput(fmt::format("{}/{}{}", kGpus, stem, kFileSuffix), folder);
    };
    path = sheet(name);
    if (!path) {
      if (const std::string known = GpuNamed(name); !known.empty()) path = sheet(known);
    }
  }
  if (!path) {
    const std::vector<std::string> known = NamesIn(kGpus);
    const std::vector<std::string> meant = GpusNear(PlainName(name), known);
    std::string hint =
        known.empty()
            ? fmt::format("the folder of data sheets was not found; {}",
                          PlacesTried(fmt::format("{}/{}{}", kGpus, name, kFileSuffix), folder))
        : meant.empty()
            ? fmt::format("write one of {}, or the path of a GPU file", fmt::join(known, ", "))
            : fmt::format("did you mean '{}'?", fmt::join(meant, "', or '"));
    diagnostics.push_back({"topology.unknown-gpu", location,
                           "there is no data sheet for this GPU: " + Quoted(name),
                           std::move(hint)});
    return std::nullopt;
  }
  Result<topology::Gpu> gpu = LoadGpu(*path);
  if (gpu) return *std::move(gpu);
  diagnostics.insert(diagnostics.end(), std::make_move_iterator(gpu.error().begin()),
                     std::make_move_iterator(gpu.error().end()));
  return std::nullopt;
}

std::string GpuNamed(std::string_view name) {
  const std::vector<std::string> known = NamesIn(kGpus);
  const std::string plain = PlainName(name);
  std::string same = SameName(plain, known);
  return same.empty() && !plain.empty() ? SxmFormOf(plain, known) : same;
}

}  // namespace stepcast::scenario
