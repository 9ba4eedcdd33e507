#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/base/diagnostic.h"
#include "src/calibration/calibration.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/outputs.h"
#include "src/cost/nccl_setting.h"
#include "src/report/answers.h"
#include "src/report/table.h"
#include "src/scenario/calibration_file.h"
#include "src/scenario/data_root.h"
#include "src/scenario/gpu_file.h"
#include "src/scenario/topology_file.h"
#include "src/topology/node_type.h"
#include "src/validate/collectives.h"
#include "src/validate/kernel_tables.h"
#include "src/validate/rate_fit.h"

namespace stepcast::cli {
namespace {

using calibration::KernelCosts;
using validate::MeasuredKernel;
using validate::RateErrors;

// The generation of attention in serving and training on this device.
std::uint8_t GenerationOf(const topology::Gpu& gpu) {
  constexpr std::uint8_t kFlash2 = 2, kFlash3 = 3, kCudnn = 4;
  constexpr int kHopper = 9, kBlackwell = 10;
  const int major = gpu.compute_capability / 10;
  return major == kBlackwell ? kCudnn : major == kHopper ? kFlash3 : kFlash2;
}

// A profile's rates with the newest libraries.
const KernelCosts& Newest(const calibration::Calibration& profile) {
  return profile.kernel_releases.empty() ? *profile.kernels : profile.kernel_releases.back().costs;
}

template <typename Row>
std::vector<Row> Half(const std::vector<Row>& rows, int half) {
  std::vector<Row> chosen;
  for (const Row& row : rows) {
    if (validate::HalfOf(row.shape) == half) chosen.push_back(row);
  }
  return chosen;
}

std::string PerCentOf(const RateErrors& errors) {
  return errors.rows == 0 ? "-"
                          : fmt::format("{} ({:+.1f})", report::PerCent(errors.mean),
                                        report::kHundred * errors.bias);
}

// A line of the report, and of the comments in the rates file.
struct Line {
  std::string gpu, what;
  std::size_t rows = 0;
  RateErrors old;
  std::optional<RateErrors> checked;  // on one half of the shapes, with a fit to the other
  RateErrors fitted;
};

// Fits the tables of one GPU type.
class Import {
 public:
  Import(const topology::Gpu& gpu, KernelCosts old) : gpu_(gpu), old_(std::move(old)), new_(old_) {}

  void Products(const validate::KernelTables& tables) {
    for (const auto& [type, rows] : tables.products) {
      const auto at = static_cast<std::size_t>(type);
      const auto fit = [&](const std::vector<MeasuredKernel>& some) {
        KernelCosts costs = new_;
        costs.gemm_tiling[at] = validate::FitTiles(some, gpu_, costs, type);
        return costs;
      };
      const auto rest = Half(rows, 1);
      const RateErrors checked = validate::ErrorsOf(rest, gpu_, fit(Half(rows, 0)));
      new_.gemm_tiling[at] = fit(rows).gemm_tiling[at];
      new_.gemm[at] = {};
      Report(fmt::format("GEMMs {}", Name(type)), rows, checked, 0);
    }
    const auto& bf16 = new_.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)];
    if (tables.products.contains(DataType::kBf16)) {
      new_.gemm_tiling[static_cast<std::size_t>(DataType::kFp16)] = bf16;
    }
  }

  void Power(const validate::KernelTables& tables) {
    constexpr double kIdle = 0.14;  // fraction of the limit drawn at rest by B200 and H100
    if (new_.power.idle == 0) new_.power.idle = std::round(kIdle * gpu_.power_limit);
    for (const auto& [type, rows] : tables.sustained) {
      const double watts = validate::FitWatts(rows, gpu_, new_, type);
      (type == DataType::kBf16 ? new_.power.products
                               : new_.power.of_type[static_cast<std::size_t>(type)]) = watts;
      Report(fmt::format("power of {} GEMMs at the power limit", Name(type)), rows, std::nullopt,
             gpu_.power_limit);
    }
  }

  void Attention(const validate::KernelTables& tables, std::uint8_t flash) {
    const std::vector<MeasuredKernel>& rows = tables.attention;
    if (rows.empty()) return;
    const auto fit = [&](const std::vector<MeasuredKernel>& some) {
      KernelCosts costs = new_;
      costs.attention[flash - 1U] = validate::FitAttention(some, gpu_, costs, flash);
      return costs;
    };
    const RateErrors checked = validate::ErrorsOf(Half(rows, 1), gpu_, fit(Half(rows, 0)));
    new_.attention[flash - 1U] = fit(rows).attention[flash - 1U];
    Report(fmt::format("attention {}", calibration::kFusedNames[flash - 1U]), rows, checked, 0);
  }

  // After Products, whose tiles grouped products have.
  void Experts(const validate::KernelTables& tables) {
    for (const auto& [type, rows] : tables.experts) {
      const auto at = static_cast<std::size_t>(type);
      const auto fit = [&, type = type](const std::vector<validate::MeasuredExperts>& some) {
        KernelCosts costs = new_;
        costs.gemm_tiling[at].grouped = validate::FitGrouped(some, gpu_, costs, type);
        return costs;
      };
      const RateErrors checked = validate::ErrorsOf(Half(rows, 1), gpu_, fit(Half(rows, 0)));
      new_.gemm_tiling[at].grouped = fit(rows).gemm_tiling[at].grouped;
      lines_.push_back({gpu_.name, fmt::format("experts {}", Name(type)), rows.size(),
                        validate::ErrorsOf(rows, gpu_, old_), checked,
                        validate::ErrorsOf(rows, gpu_, new_)});
    }
    if (tables.experts.contains(DataType::kBf16)) {
      new_.gemm_tiling[static_cast<std::size_t>(DataType::kFp16)].grouped =
          new_.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)].grouped;
    }
  }

  // Only the fitted figures.
  report::Rates Rates(const std::string& source, const validate::KernelTables& tables,
                      std::uint8_t flash) const {
    report::Rates rates{.name = gpu_.name, .source = source, .comments = {}, .costs = {}};
    for (const auto& [type, rows] : tables.products) Take(type, rates.costs);
    if (tables.products.contains(DataType::kBf16)) Take(DataType::kFp16, rates.costs);
    if (!tables.sustained.empty()) rates.costs.power = new_.power;
    if (!tables.attention.empty()) rates.costs.attention[flash - 1U] = new_.attention[flash - 1U];
    rates.comments.emplace_back("Written by 'stepcast calibrate import atlas'.");
    rates.comments.emplace_back(
        "Mean error of forecasts in percent, with the bias in parentheses. "
        "half: mean error for rows that are not in the fit.");
    for (const Line& line : lines_) {
      rates.comments.push_back(fmt::format("  {}: {} ({:+.1f}) for {} rows; half: {}", line.what,
                                           report::PerCent(line.fitted.mean),
                                           report::kHundred * line.fitted.bias, line.rows,
                                           line.checked ? PerCentOf(*line.checked) : "-"));
    }
    return rates;
  }

  const std::vector<Line>& lines() const { return lines_; }

 private:
  void Take(DataType type, KernelCosts& costs) const {
    costs.gemm_tiling[static_cast<std::size_t>(type)] =
        new_.gemm_tiling[static_cast<std::size_t>(type)];
  }

  void Report(std::string what, const std::vector<MeasuredKernel>& rows,
              std::optional<RateErrors> checked, double limit_watts) {
    lines_.push_back({gpu_.name, std::move(what), rows.size(),
                      validate::ErrorsOf(rows, gpu_, old_, limit_watts), checked,
                      validate::ErrorsOf(rows, gpu_, new_, limit_watts)});
  }

  const topology::Gpu& gpu_;
  const KernelCosts old_;
  KernelCosts new_;
  std::vector<Line> lines_;
};

// The mean error of points of at least `least` bytes.
RateErrors MeanError(const validate::CollectiveAccuracy& accuracy, Bytes least, bool held_back) {
  RateErrors errors;
  for (const validate::CollectivePoint& point : accuracy.points) {
    if (point.size < least || (held_back && point.role != validate::Role::kHeldBack)) continue;
    errors.mean += std::abs(point.error());
    errors.bias += point.error();
    ++errors.rows;
  }
  if (errors.rows > 0) {
    errors.mean /= static_cast<double>(errors.rows);
    errors.bias /= static_cast<double>(errors.rows);
  }
  return errors;
}

// A topology with this GPU type: the one with the most GPUs, and of these the first by name.
struct Machine {
  std::string topology;  // relative to the data root
  bool nvlink = false;
  Bandwidth inside;  // all NVLinks of a GPU, or its PCIe link, in one direction
};
std::optional<Machine> MachineOf(const std::string& gpu) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry :
       std::filesystem::directory_iterator(scenario::DataRoot() + "/topologies", missing)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::optional<Machine> machine;
  int most = 0;
  for (const std::string& name : names) {
    const auto read =
        scenario::LoadTopology(fmt::format("{}/topologies/{}", scenario::DataRoot(), name));
    if (!read || !read->gpu || read->gpu->name != gpu) continue;
    const auto* described = std::get_if<scenario::NodeDescription>(&read->description);
    if (described == nullptr) continue;
    const topology::NodeType* node = &described->node_type;
    if (node->Count(topology::DeviceKind::kGpu) <= most) continue;
    most = node->Count(topology::DeviceKind::kGpu);
    machine = Machine{.topology = "topologies/" + name, .nvlink = false, .inside = {}};
    const Bandwidth nvlinks = cost::LinksOfAGpu(*node, topology::LinkKind::kNvLink).bandwidth;
    machine->nvlink = nvlinks != Bandwidth();
    machine->inside =
        machine->nvlink ? nvlinks : cost::LinksOfAGpu(*node, topology::LinkKind::kPcie).bandwidth;
  }
  return machine;
}

struct ImportAtlasOptions {
  std::string folder;  // of the tables (validate/kernel_tables.h)
  std::string gpu;     // only this GPU type; empty: all with a table and a profile
  std::string source;  // source of the measurements; empty: the folder's name
  std::string output;  // folder for the fitted rates, GPU.yaml; empty: none
};

// Compares NCCL's table with the profile, and with the table's other half. Writes it if requested.
std::optional<Outcome> Collectives(const ImportAtlasOptions& options, const topology::Gpu& gpu,
                                   const std::string& source, report::Table& table) {
  const auto machine = MachineOf(gpu.name);
  if (!machine) return std::nullopt;
  using File = std::shared_ptr<const calibration::CurveFile>;
  const auto read = [&](bool half) -> Result<std::vector<File>> {
    auto files = validate::ReadCollectiveTable(options.folder, gpu, machine->topology, half);
    if (!files) return tl::unexpected(files.error());
    std::vector<File> shared;
    for (calibration::CurveFile& file : *files) {
      file.source = source;
      file.nvlink = machine->nvlink;
      file.inside = machine->inside;
      shared.push_back(std::make_shared<const calibration::CurveFile>(std::move(file)));
    }
    return shared;
  };
  const auto halves = read(true);
  const auto whole = read(false);
  if (!halves) return WrongInput(halves.error());
  if (!whole) return WrongInput(whole.error());
  const auto profile = validate::CompareCurves(*whole, /*own=*/false);
  const auto checked = validate::CompareCurves(*halves, /*own=*/true);
  if (!profile) return WrongInput(profile.error());
  if (!checked) return WrongInput(checked.error());
  if (!whole->empty()) {
    for (const auto& [what, least] :
         {std::pair("NCCL from 64 KiB", KiB(64)), std::pair("NCCL from 1 KiB", KiB(1))}) {
      const RateErrors old = MeanError(*profile, least, false);
      table.AddRow({gpu.name, what, report::Grouped(static_cast<std::int64_t>(old.rows)),
                    PerCentOf(old), PerCentOf(MeanError(*checked, least, true)), "-"});
    }
  }
  if (options.output.empty()) return std::nullopt;
  for (const File& file : *whole) {
    Outcome written =
        PutText(fmt::format("{}/{}.yaml", options.output, file->name), report::CurvesYaml(*file));
    if (written.status != kDone) return written;
  }
  return std::nullopt;
}

// The GPU types with a table in `folder`.
std::vector<std::string> GpusOf(const std::string& folder) {
  std::vector<std::string> gpus;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/products", missing)) {
    if (entry.path().extension() != ".csv") continue;
    const std::string name = entry.path().stem().string();
    if (scenario::FindInput(fmt::format("topologies/gpus/{}.yaml", name), "")) gpus.push_back(name);
  }
  std::sort(gpus.begin(), gpus.end());
  return gpus;
}

// Compares forecasts of kernels with measured tables, and fits rates to the tables.
Outcome ImportAtlas(const ImportAtlasOptions& options) {
  const std::vector<std::string> gpus =
      options.gpu.empty() ? GpusOf(options.folder) : std::vector<std::string>{options.gpu};
  if (gpus.empty()) {
    return WrongInput("file.not-found", options.folder,
                      "the folder contains no products/GPU.csv for a known GPU type",
                      "write the path of the folder that contains the folder 'products'");
  }
  report::Table table({{"GPU", report::Align::kLeft},
                       {"kernels", report::Align::kLeft},
                       {"rows"},
                       {"profile %"},
                       {"check %"},
                       {"fitted %"}});
  Outcome outcome;
  for (const std::string& name : gpus) {
    const auto gpu_path = scenario::FindInput(fmt::format("topologies/gpus/{}.yaml", name), "");
    const auto profile_path = scenario::FindInput(fmt::format("calibration/{}.yaml", name), "");
    if (!gpu_path || !profile_path) {
      return WrongInput(
          "file.not-found", fmt::format("--gpu {}", name),
          fmt::format("GPU type {} needs topologies/gpus/{}.yaml and calibration/{}.yaml",
                      Quoted(name), name, name),
          "add the two files, or write a GPU type that stepcast list gpus lists");
    }
    const auto gpu = scenario::LoadGpu(*gpu_path);
    if (!gpu) return WrongInput(gpu.error());
    const auto profile = scenario::LoadCalibration(*profile_path);
    if (!profile) return WrongInput(profile.error());
    const std::uint8_t flash = GenerationOf(*gpu);
    const auto tables = validate::ReadKernelTables(options.folder, *gpu, flash);
    if (!tables) return WrongInput(tables.error());
    Import import(*gpu, Newest(*profile));
    import.Products(*tables);
    import.Power(*tables);
    import.Attention(*tables, flash);
    import.Experts(*tables);
    for (const Line& line : import.lines()) {
      table.AddRow({line.gpu, line.what, report::Grouped(static_cast<std::int64_t>(line.rows)),
                    PerCentOf(line.old), line.checked ? PerCentOf(*line.checked) : "-",
                    PerCentOf(line.fitted)});
    }
    const std::string source = options.source.empty() ? options.folder : options.source;
    if (auto failed = Collectives(options, *gpu, source, table)) return *std::move(failed);
    if (options.output.empty()) continue;
    Outcome written = PutText(fmt::format("{}/{}.yaml", options.output, name),
                              report::RatesYaml(import.Rates(source, *tables, flash)));
    if (written.status != kDone) return written;
  }
  outcome.output = table.ToString();
  return outcome;
}

void DescribeImportAtlas(Question& question, ImportAtlasOptions& options) {
  question.Argument("FOLDER", &options.folder).Required();
  question.Option("--gpu", &options.gpu, "NAME");
  question.Option("--source", &options.source, "TEXT");
  question.Option("--output", &options.output, "FOLDER");
}

}  // namespace

Command ImportAtlasCommand() {
  return MakeCommand<ImportAtlasOptions>("calibrate import atlas", DescribeImportAtlas,
                                         ImportAtlas);
}

}  // namespace stepcast::cli
