#include "src/validate/kernel_tables.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/base/collective_kind.h"
#include "src/base/files.h"
#include "src/formats/csv_table.h"

namespace stepcast::validate {
namespace {

constexpr std::int64_t kLeastSide = 512;
constexpr double kShortest = 20, kLongest = 1000;  // microseconds
// At the power limit, shorter products are mostly launches and casts.
constexpr double kShortestAtLimit = 200;
// A dozen of such products last as long as the power limit takes to act. From this size on, rates
// of bursts equal those of long runs. Beyond twice this size some libraries change kernels.
constexpr double kLongBurst = 8000;
// If the time without the cast is below this fraction of the time with it, it is mostly the error
// of a difference.
constexpr double kLeastNet = 0.6;

// A file of the folder. Empty if it does not exist, or after a Diagnostic.
class Table {
 public:
  static std::optional<Table> Open(const std::string& path, Diagnostics& faults) {
    if (!std::filesystem::exists(path)) return std::nullopt;
    const auto text = ReadTextFile(path, faults);
    if (!text) return std::nullopt;
    auto parsed = formats::ParseCsv(*text, path);
    if (!parsed) {
      faults.insert(faults.end(), parsed.error().begin(), parsed.error().end());
      return std::nullopt;
    }
    return Table(*std::move(parsed), path, faults);
  }

  std::size_t size() const { return table_.rows.size(); }
  bool Has(std::string_view column) const { return Find(column) != nullptr; }

  // Empty if the column does not exist.
  std::string_view Text(std::size_t row, std::string_view column) const {
    const std::size_t* at = Find(column);
    return at == nullptr ? std::string_view() : std::string_view(table_.rows[row][*at].text);
  }

  // Nothing if the field is empty, or after a Diagnostic.
  std::optional<double> Number(std::size_t row, std::string_view column) const {
    const std::string_view text = Text(row, column);
    if (text.empty()) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value)) {
      return value;
    }
    faults_->push_back({"atlas.number", table_.rows[row][*Find(column)].location,
                        fmt::format("'{}' needs a number: {}", column, Quoted(text)),
                        "write a number, or an empty field if nothing was measured"});
    return std::nullopt;
  }

  // The value of a required column; zero after a Diagnostic.
  std::int64_t Size(std::size_t row, std::string_view column) const {
    return std::llround(Number(row, column).value_or(0));
  }

  bool Needs(std::initializer_list<std::string_view> columns) const {
    for (const std::string_view column : columns) {
      if (Has(column)) continue;
      faults_->push_back(
          {"atlas.column",
           {path_, 1, 1},
           fmt::format("the table has no column '{}'", column),
           "add the column; src/validate/kernel_tables.h lists the columns of each table"});
      return false;
    }
    return true;
  }

 private:
  Table(formats::CsvTable table, std::string path, Diagnostics& faults)
      : table_(std::move(table)), path_(std::move(path)), faults_(&faults) {
    for (std::size_t i = 0; i < table_.headings.size(); ++i) columns_[table_.headings[i].text] = i;
  }
  const std::size_t* Find(std::string_view column) const {
    const auto found = columns_.find(column);
    return found == columns_.end() ? nullptr : &found->second;
  }

  formats::CsvTable table_;
  std::string path_;
  std::map<std::string, std::size_t, std::less<>> columns_;
  Diagnostics* faults_;
};

// The tables' names of the types that the device multiplies.
std::vector<std::pair<std::string_view, DataType>> TypesOf(const topology::Gpu& gpu) {
  std::vector<std::pair<std::string_view, DataType>> types;
  for (const auto& [name, type] : {std::pair<std::string_view, DataType>("bf16", DataType::kBf16),
                                   {"fp8", DataType::kFp8},
                                   {"fp8b", DataType::kMxfp8},
                                   {"nvfp4", DataType::kNvfp4}}) {
    if (gpu.PeakOf(type) > FlopRate()) types.emplace_back(name, type);
  }
  return types;
}

Kernel ProductOf(std::int64_t m, std::int64_t n, std::int64_t k, DataType type) {
  return {.kind = KernelKind::kGemm,
          .data_type = type,
          .m = m,
          .n = n,
          .k = k,
          .flops = 2 * m * n * k,
          .read = BytesOf(m * k, type) + BytesOf(n * k, type),
          .written = BytesOf(m * n, DataType::kBf16)};
}

using Sizes = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Sizes SizesOf(const Table& table, std::size_t row) {
  return {table.Size(row, "m"), table.Size(row, "n"), table.Size(row, "k")};
}

bool IsLarge(const Sizes& sizes) {
  const auto [m, n, k] = sizes;
  return std::min({m, n, k}) >= kLeastSide;
}

MeasuredKernel RowOf(const Sizes& sizes, DataType type, double microseconds) {
  const auto [m, n, k] = sizes;
  return {.kernel = ProductOf(m, n, k, type),
          .microseconds = microseconds,
          .shape = fmt::format("{} x {}", n, k)};
}

// Products at full clock, by type name and sizes, in microseconds.
struct Burst {
  double cast = 0;  // time of casting x
  double net = 0;   // time of the product without the cast
};
using Bursts = std::map<std::pair<std::string, Sizes>, Burst>;

void ReadProducts(const Table& table, const topology::Gpu& gpu, KernelTables& tables,
                  Bursts& bursts) {
  if (!table.Needs({"m", "n", "k"})) return;
  for (std::size_t row = 0; row < table.size(); ++row) {
    const Sizes sizes = SizesOf(table, row);
    if (!IsLarge(sizes)) continue;
    for (const auto& [name, type] : TypesOf(gpu)) {
      const auto total = table.Number(row, fmt::format("{}_us", name));
      if (!total) continue;
      const auto net = name == "bf16" ? total : table.Number(row, fmt::format("{}_net_us", name));
      if (!net || *net < kLeastNet * *total) continue;
      bursts[{std::string(name), sizes}] = {.cast = *total - *net, .net = *net};
      if (type != DataType::kNvfp4 && *net >= kLongBurst && *net <= 2 * kLongBurst)
        tables.sustained[type].push_back(RowOf(sizes, type, *net));
      if (*net < kShortest || *net > kLongest) continue;
      tables.products[type].push_back(RowOf(sizes, type, *net));
    }
  }
}

// Reads the fastest product with random operands, without its cast. Equal values draw less power.
void ReadSustained(const Table& table, const topology::Gpu& gpu, const Bursts& bursts,
                   ProductRows& rows) {
  if (!table.Needs({"gpu", "m", "n", "k", "type", "us", "by"})) return;
  std::map<std::pair<DataType, Sizes>, MeasuredKernel> best;
  for (std::size_t row = 0; row < table.size(); ++row) {
    if (table.Text(row, "gpu") != gpu.name || table.Text(row, "by") == "V0") continue;
    const Sizes sizes = SizesOf(table, row);
    const auto microseconds = table.Number(row, "us");
    if (!IsLarge(sizes) || !microseconds) continue;
    for (const auto& [name, type] : TypesOf(gpu)) {
      const auto burst = bursts.find({std::string(name), sizes});
      if (table.Text(row, "type") != name || burst == bursts.end()) continue;
      const double net = *microseconds - burst->second.cast;
      if (burst->second.net > kLongest) continue;
      if (net < kShortestAtLimit || net < kLeastNet * *microseconds) continue;
      MeasuredKernel product = RowOf(sizes, type, net);
      product.at_full_clock = burst->second.net;
      const auto [at, added] = best.try_emplace({type, sizes}, product);
      if (!added && net < at->second.microseconds) at->second = product;
    }
  }
  for (auto& [key, product] : best) rows[key.first].push_back(std::move(product));
}

// Microseconds of `bytes` of traffic between kernels whose operands take `footprint` bytes. The
// part of the footprint that fits into the device's cache passes at the cache's rate.
double PassTime(double bytes, double footprint, const topology::Gpu& gpu) {
  constexpr double kCacheRate = 5e6;  // bytes per microsecond: general experience with H100
  const double memory_rate = 1e-6 * static_cast<double>(gpu.memory_bandwidth.bytes_per_second());
  const double cache = static_cast<double>(gpu.l2_cache.count());
  const double missed = footprint <= cache ? 0 : bytes * (1 - cache / footprint);
  return missed / memory_rate + (bytes - missed) / std::max(memory_rate, kCacheRate);
}

// Bytes moved besides attention. TensorRT-LLM rotates queries and keys and writes the cache; vLLM
// writes the cache. They do so in separate kernels or within attention.
double BytesBesides(std::string_view by, double tokens, double head, double heads,
                    double kv_heads) {
  constexpr double kElement = 2;
  const double cache = 2 * kv_heads;  // keys and values, read and written with the next line
  if (by == "T") return 2 * kElement * tokens * head * (heads + kv_heads + cache);
  return by == "V" ? 2 * kElement * tokens * head * cache : 0;
}

std::vector<MeasuredKernel> ReadAttention(const Table& table, const topology::Gpu& gpu,
                                          std::uint8_t flash) {
  std::vector<MeasuredKernel> rows;
  if (!table.Needs({"heads", "kv_heads", "head", "window", "batch", "length", "bf16_us"})) {
    return rows;
  }
  for (std::size_t row = 0; row < table.size(); ++row) {
    const auto microseconds = table.Number(row, "bf16_us");
    const std::int64_t head = table.Size(row, "head");
    const bool trained = head == 64 || head == 128 || head == 256;
    if (!microseconds || *microseconds < kShortest || !trained) continue;
    const std::int64_t heads = table.Size(row, "heads"), kv_heads = table.Size(row, "kv_heads");
    const std::int64_t batch = table.Size(row, "batch"), length = table.Size(row, "length");
    const std::int64_t window = table.Size(row, "window");
    const std::int64_t keys = window == 0 ? length : std::min(window, length);
    const std::int64_t pairs = length * keys - keys * keys / 2;
    const std::string_view by = table.Text(row, "bf16_by");
    const double besides =
        BytesBesides(by, static_cast<double>(batch * length), static_cast<double>(head),
                     static_cast<double>(heads), static_cast<double>(kv_heads));
    const Bytes read = BytesOf(batch * length * head * (heads + 2 * kv_heads), DataType::kBf16);
    const Bytes written = BytesOf(batch * length * head * heads, DataType::kBf16);
    rows.push_back({.kernel = {.kind = KernelKind::kAttention,
                               .data_type = DataType::kBf16,
                               .batch = batch * heads,
                               .m = length,
                               .n = keys,
                               .k = head,
                               // TensorRT-LLM's blocks hold the queries of one head.
                               .key_heads = batch * (by == "T" ? heads : kv_heads),
                               .flops = 4 * batch * heads * pairs * head,
                               .read = read,
                               .written = written,
                               .flash = flash},
                    .microseconds = *microseconds,
                    .besides = PassTime(
                        besides, static_cast<double>((read + written).count()) + besides / 2, gpu),
                    .shape = fmt::format("{} of {}, window {}", heads, head, window)});
  }
  return rows;
}

// Both products of a layer of experts: to the inner size, whose gate doubles it, and back.
MeasuredExperts ExpertsOf(const Table& table, std::size_t row, DataType type, double microseconds) {
  const auto size = [&](std::string_view column) { return table.Size(row, column); };
  const std::int64_t hidden = size("hidden"), top = size("topk"), all = size("experts");
  const std::int64_t tp = size("tp"), ep = size("ep"), tokens = size("tokens");
  const std::int64_t inner = size("inter") / tp, matrices = size("gated") != 0 ? 2 : 1;
  const std::int64_t local = all / ep, each = (tokens * top + all - 1) / all;
  const auto product = [&](std::int64_t n, std::int64_t k) {
    Kernel kernel = ProductOf(each, n, k, type);
    kernel.batch = local;
    kernel.grouped = true;
    kernel.flops *= local;
    kernel.read = local * kernel.read;
    kernel.written = local * kernel.written;
    return kernel;
  };
  // Bytes of a number outside the products, and of their operands. Permutation and activation cast.
  constexpr double kWide = 2;
  const double narrow = static_cast<double>(BytesOf(1'000'000, type).count()) * 1e-6;
  const auto rows = static_cast<double>(tokens * top) / static_cast<double>(ep);
  const auto h = static_cast<double>(hidden), i = static_cast<double>(inner);
  const double permuted = (kWide + narrow) * rows * h;
  const double activated = (kWide * static_cast<double>(matrices) + narrow) * rows * i;
  const double summed = kWide * (rows + static_cast<double>(tokens)) * h;
  return {.products = {product(matrices * inner, hidden), product(hidden, inner)},
          .bytes = permuted + activated + summed,
          .choices = static_cast<double>(tokens * top),
          .microseconds = microseconds,
          .shape = fmt::format("{} of {} top {} of {} tp {} ep {}", hidden, size("inter"), top, all,
                               tp, ep)};
}

void ReadExperts(const Table& table, const topology::Gpu& gpu, KernelTables& tables) {
  if (!table.Needs({"hidden", "inter", "topk", "experts", "gated", "tp", "ep", "tokens"})) return;
  for (std::size_t row = 0; row < table.size(); ++row) {
    bool divides = true;  // zero ranks or experts have been reported, or mean nothing
    for (const std::string_view column : {"topk", "experts", "tp", "ep", "tokens"}) {
      divides = divides && table.Size(row, column) > 0;
    }
    if (!divides) continue;
    for (const auto& [name, type] : TypesOf(gpu)) {
      const auto microseconds = table.Number(row, fmt::format("{}_even_us", name));
      if (!microseconds || *microseconds < kShortest) continue;
      tables.experts[type].push_back(ExpertsOf(table, row, type, *microseconds));
    }
  }
}

// "2.29" from "2.29.2".
std::optional<Version> ReleaseOf(std::string_view text) {
  Version version;
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
  if (minor.ec != std::errc()) return std::nullopt;
  return version;
}

std::optional<CollectiveKind> CollectiveOf(std::string_view op) {
  for (const CollectiveKind kind : kMeasuredCollectiveKinds) {
    if (Name(kind) == op) return kind;
  }
  return std::nullopt;
}

// Bandwidth at the largest size, in bytes per second sent by each rank.
double BusBandwidth(const calibration::CollectiveCurve& curve) {
  const auto& [bytes, time] = curve.fit.back();
  return (curve.ranks - 1.0) / curve.ranks * static_cast<double>(bytes.count()) / time.seconds();
}

// Removes curves of hosts without peer access. More GPUs on the same links keep their bus
// bandwidth, or half of it if they share a root complex. If less than a third remains, data pass
// through host memory, which says nothing about the GPU or other machines.
void DropWithoutPeerAccess(std::vector<calibration::CollectiveCurve>& curves) {
  std::map<CollectiveKind, double> fewest;  // bus bandwidth of the fewest ranks; curves ascend
  std::erase_if(curves, [&](const calibration::CollectiveCurve& curve) {
    const double own = BusBandwidth(curve);
    return own < fewest.emplace(curve.collective, own).first->second / 3;
  });
}

}  // namespace

Result<std::vector<calibration::CurveFile>> ReadCollectiveTable(const std::string& folder,
                                                                const topology::Gpu& gpu,
                                                                const std::string& topology,
                                                                bool half) {
  Diagnostics faults;
  std::vector<calibration::CurveFile> files;
  const auto table = Table::Open(folder + "/collectives/nccl.csv", faults);
  using Group = std::tuple<CollectiveKind, int>;  // and ranks
  // For each size, the sum over repetitions and their number.
  std::map<Version, std::map<Group, std::map<std::int64_t, std::pair<double, int>>>> releases;
  if (table && table->Needs({"gpu", "release", "op", "ranks", "bytes", "us"})) {
    for (std::size_t row = 0; row < table->size(); ++row) {
      if (table->Text(row, "gpu") != gpu.name) continue;
      const auto release = ReleaseOf(table->Text(row, "release"));
      const auto kind = CollectiveOf(table->Text(row, "op"));
      const auto time = table->Number(row, "us");
      if (!release || !kind || !time) continue;
      auto& [sum, count] = releases[*release][{*kind, static_cast<int>(table->Size(row, "ranks"))}]
                                   [table->Size(row, "bytes")];
      sum += *time;
      ++count;
    }
  }
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  for (const auto& [release, groups] : releases) {
    calibration::CurveFile file{
        .name = fmt::format("{}-nccl-{}.{}", gpu.name, release.major, release.minor),
        .source = {},
        .machine = fmt::format("one node of {}", gpu.name),
        .topology = topology,
        .nccl = release,
        .rule =
            half ? "every second size was excluded from the fit" : "all sizes were used in the fit",
        .not_counted = {},
        .inside = {},
        .network = {},
        .curves = {}};
    for (const auto& [group, points] : groups) {
      calibration::CollectiveCurve curve{.location = {},
                                         .collective = std::get<0>(group),
                                         .ranks = std::get<1>(group),
                                         .nodes = 1,
                                         .algorithm = {},
                                         .fit = {},
                                         .held_back = {},
                                         .uncertain = {},
                                         .documented = {}};
      bool held = false;
      for (const auto& [bytes, times] : points) {
        const double mean = times.first / times.second;
        (held ? curve.held_back : curve.fit)
            .emplace_back(Bytes(bytes), Picoseconds(std::llround(mean * 1e4) * 100));
        held = half && !held;
      }
      file.curves.push_back(std::move(curve));
    }
    DropWithoutPeerAccess(file.curves);
    files.push_back(std::move(file));
  }
  return files;
}

Result<KernelTables> ReadKernelTables(const std::string& folder, const topology::Gpu& gpu,
                                      std::uint8_t flash) {
  Diagnostics faults;
  KernelTables tables;
  Bursts bursts;
  const auto open = [&](const std::string& name) {
    return Table::Open(fmt::format("{}/{}", folder, name), faults);
  };
  const auto products = open(fmt::format("products/{}.csv", gpu.name));
  if (products) ReadProducts(*products, gpu, tables, bursts);
  if (const auto sustained = open("sustained/products.csv")) {
    ReadSustained(*sustained, gpu, bursts, tables.sustained);
  }
  const auto attention = open(fmt::format("attention/causal-{}.csv", gpu.name));
  if (attention) tables.attention = ReadAttention(*attention, gpu, flash);
  if (const auto grouped = open(fmt::format("grouped/{}.csv", gpu.name))) {
    ReadExperts(*grouped, gpu, tables);
  }
  if (!products && !attention && faults.empty()) {
    faults.push_back(
        {"file.not-found",
         {folder, 0, 0},
         fmt::format("the files products/{0}.csv and attention/causal-{0}.csv do not exist",
                     gpu.name),
         "write the path of the folder that contains the files"});
  }
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return tables;
}

}  // namespace stepcast::validate
