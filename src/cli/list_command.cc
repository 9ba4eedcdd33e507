#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/data_type.h"
#include "src/base/quantity.h"
#include "src/calibration/profiles.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/option_parts.h"
#include "src/foreign/frameworks.h"
#include "src/foreign/recipes.h"
#include "src/plan/framework.h"
#include "src/report/answer.h"
#include "src/report/table.h"
#include "src/scenario/calibration_file.h"
#include "src/scenario/data_root.h"
#include "src/scenario/gpu_file.h"
#include "src/scenario/input_schemas.h"
#include "src/scenario/model_file.h"
#include "src/scenario/schema.h"
#include "src/scenario/source_names.h"
#include "src/scenario/topology_file.h"

namespace stepcast::cli {
namespace {

using enum report::Align;
using report::Listing;
using scenario::SourceKind;

constexpr std::string_view kGpus = "topologies/gpus";

std::string PathOf(std::string_view folder, const std::string& name) {
  return fmt::format("{}/{}/{}.yaml", scenario::DataRoot(), folder, name);
}

Result<Listing> Models() {
  Listing listing{
      .name = "models",
      .columns = {{"model", "name", kLeft}, {"parameters", "parameters"}},
      .rows = {},
      .footer =
          "To use another model, write the path of its config.json: model: PATH, or --model PATH."};
  for (const std::string& name : scenario::ShippedNames(SourceKind::kModel)) {
    const auto loaded = scenario::LoadModel(PathOf("models", name));
    if (!loaded) return tl::make_unexpected(loaded.error());
    listing.rows.push_back({name, loaded->model.parameter_count()});
  }
  return listing;
}

Result<Listing> Topologies() {
  Listing listing{.name = "topologies",
                  .columns = {{"topology", "name", kLeft},
                              {"GPUs of a node", "gpus_per_node"},
                              {"GPU", "gpu", kLeft},
                              {"nodes", "nodes", kLeft},
                              {"title", "title", kLeft}},
                  .rows = {},
                  .footer = "To draw a topology, run stepcast topology show NAME."};
  for (const std::string& name : scenario::ShippedNames(SourceKind::kTopology)) {
    const auto topology = scenario::LoadTopology(PathOf("topologies", name));
    if (!topology) return tl::make_unexpected(topology.error());
    const auto* nodes = std::get_if<scenario::NodeDescription>(&topology->description);
    const std::int64_t gpus =
        nodes == nullptr ? 1 : nodes->node_type.Count(topology::DeviceKind::kGpu);
    const bool alone = nodes != nullptr && !nodes->fabric;
    listing.rows.push_back({name, gpus, topology->gpu ? topology->gpu->name : "",
                            alone ? "1" : "any", topology->name});
  }
  return listing;
}

// The source of a GPU type's kernel measurements, or the profile that replaces them.
Result<std::string> ProfileOf(const topology::Gpu& gpu) {
  const auto path = scenario::FindInput(fmt::format("calibration/{}.yaml", gpu.name), "");
  if (!path) {
    const auto stand_in = calibration::StandInOf(gpu.name, gpu.compute_capability);
    return stand_in ? fmt::format("none; forecasts use {}", stand_in->profile)
                    : std::string("none");
  }
  const auto profile = scenario::LoadCalibration(*path);
  if (!profile) return tl::make_unexpected(profile.error());
  for (const auto& [key, text] : profile->provenance) {
    if (key == "machine") return text;
  }
  return std::string("not stated");
}

Result<Listing> Gpus() {
  Listing listing{.name = "gpus",
                  .columns = {{"GPU", "name", kLeft},
                              {"memory", "memory"},
                              {"bandwidth", "memory_bandwidth"},
                              {"BF16", "bf16"},
                              {"measured on", "profile", kLeft}},
                  .rows = {},
                  .footer = "Short names such as h100 and a100 refer to the SXM modules."};
  for (const std::string& name : scenario::NamesIn(kGpus)) {
    const auto gpu = scenario::LoadGpu(PathOf(kGpus, name));
    if (!gpu) return tl::make_unexpected(gpu.error());
    auto profile = ProfileOf(*gpu);
    if (!profile) return tl::make_unexpected(profile.error());
    const auto rate = static_cast<double>(gpu->PeakOf(DataType::kBf16).flops_per_second());
    listing.rows.push_back({name, FormatBytes(gpu->memory), FormatBandwidth(gpu->memory_bandwidth),
                            rate > 0 ? fmt::format("{:.0f} TFLOPS", rate / 1e12) : "-",
                            *std::move(profile)});
  }
  return listing;
}

Result<Listing> Frameworks() {
  Listing listing{.name = "frameworks",
                  .columns = {{"framework", "name", kLeft},
                              {"ZeRO stages", "zero_stages", kLeft},
                              {"axes", "axes", kLeft}}};
  for (const plan::Framework framework : plan::kFrameworks) {
    const plan::FrameworkTraits& traits = plan::TraitsOf(framework);
    std::vector<const char*> axes = {"data"};
    if (traits.tensor_parallel) axes.push_back("tensor");
    if (traits.pipelines) axes.push_back("pipeline");
    if (traits.context_parallel) axes.push_back("context");
    if (traits.expert_parallel) axes.push_back("expert");
    listing.rows.push_back({std::string(traits.name),
                            traits.first_stage == traits.last_stage
                                ? fmt::format("{}", traits.first_stage)
                                : fmt::format("{} to {}", traits.first_stage, traits.last_stage),
                            fmt::format("{}", fmt::join(axes, ", "))});
  }
  std::vector<std::string_view> forms;
  for (const foreign::Framework* framework : foreign::Frameworks()) {
    forms.push_back(framework->form);
  }
  listing.footer = fmt::format("stepcast init reads:\n  {}", fmt::join(forms, "\n  "));
  return listing;
}

// The allowed values of a key without documentation.
std::string ValuesOf(const scenario::Schema& schema) {
  using Kind = scenario::SchemaValue::Kind;
  const std::map<Kind, const char*> plain = {
      {Kind::kText, "text"},        {Kind::kBoolean, "`true`, `false`"},
      {Kind::kBytes, "bytes"},      {Kind::kVersion, "a version in quotes"},
      {Kind::kTime, "a time"},      {Kind::kFlopRate, "a rate of FLOPs"},
      {Kind::kSequence, "a list"},  {Kind::kBandwidth, "a bandwidth"},
      {Kind::kMapping, "a mapping"}};
  std::vector<std::string> values;
  for (const scenario::SchemaValue& value : schema.values()) {
    if (value.kind == Kind::kWord) {
      values.push_back(fmt::format("`{}`", fmt::join(value.words, "`, `")));
    } else if (value.kind == Kind::kInteger) {
      values.push_back(
          fmt::format("an integer from {} to {}", value.integers.least, value.integers.most));
    } else if (value.kind == Kind::kDecimal) {
      values.push_back(
          fmt::format("a number from {} to {}", value.decimals.least, value.decimals.most));
    } else {
      values.emplace_back(plain.at(value.kind));
    }
  }
  return fmt::format("{}", fmt::join(values, ", or "));
}

// The keys of a mapping and of its nested mappings. Mappings that may be files have separate
// schemas (stepcast schema model, topology).
void AddSettings(const scenario::Schema& mapping, const std::string& path, Listing& listing) {
  for (const scenario::Schema::Key& key : mapping.keys()) {
    const scenario::Schema& value = *key.value;
    const std::string own = path.empty() ? key.name : fmt::format("{}.{}", path, key.name);
    const bool section = path.empty() && !value.keys().empty();
    if (!section) {
      listing.rows.push_back({own,
                              !value.default_value().empty() ? value.default_value()
                              : mapping.Requires(key)        ? "required"
                                                             : "",
                              value.description().empty() ? ValuesOf(value) : value.description()});
    }
    if (value.others().empty()) AddSettings(value, own, listing);
    if (value.items() != nullptr) AddSettings(*value.items(), own, listing);
  }
}

// All keys of a scenario file.
Listing Settings() {
  Listing listing{.name = "settings",
                  .columns = {{"setting", "key", kLeft},
                              {"default", "default", kLeft},
                              {"values", "values", kLeft}},
                  .rows = {},
                  .footer = ""};
  AddSettings(scenario::InputSchemaOf("scenario").schema, "", listing);
  return listing;
}

Listing Recipes() {
  Listing listing{
      .name = "recipes",
      .columns = {{"recipe", "name", kLeft},
                  {"model", "model", kLeft},
                  {"settings", "settings", kLeft}},
      .rows = {},
      .footer = fmt::format(
          "Recipes of {}. To use a recipe, run stepcast init NAME --cluster TOPOLOGY --nodes N.",
          foreign::kRecipeRelease)};
  for (const foreign::Recipe& recipe : foreign::Recipes()) {
    listing.rows.push_back(
        {std::string(recipe.name), std::string(recipe.model), std::string(recipe.settings)});
  }
  return listing;
}

// Each recipe has many settings, so they are listed below it.
std::string RecipesText(const Listing& listing) {
  std::string text;
  for (const auto& row : listing.rows) {
    text += fmt::format("{}: {}\n", row[0].text, row[1].text);
    const std::string& settings = row[2].text;
    for (std::size_t at = 0; at < settings.size();) {
      const std::size_t end = std::min(settings.find(' ', at), settings.size());
      text += fmt::format("    {}\n", settings.substr(at, end - at));
      at = end + 1;
    }
  }
  return text + "\n" + listing.footer + "\n";
}

// Descriptions are sentences, so they are listed below each setting.
std::string SettingsText(const Listing& listing) {
  std::string text;
  for (const auto& row : listing.rows) {
    text += fmt::format("{}\n    {}\n    default: {}\n", row[0].text, row[2].text, row[1].text);
  }
  return text;
}

struct ListOptions {
  std::string what;  // models, topologies, gpus, frameworks, settings
  bool json = false;
};

Outcome List(const ListOptions& options) {
  const auto listing = options.what == "models"       ? Models()
                       : options.what == "topologies" ? Topologies()
                       : options.what == "gpus"       ? Gpus()
                       : options.what == "frameworks" ? Frameworks()
                       : options.what == "recipes"    ? Recipes()
                                                      : Settings();
  if (!listing) return WrongInput(listing.error());
  if (listing->rows.empty()) {
    return WrongInput("file.not-found", "list " + options.what, "there are no files to list",
                      scenario::MissingData());
  }
  Outcome outcome;
  if (options.json) {
    outcome.output = listing->ToJson();
    return outcome;
  }
  outcome.output = report::Wrapped(options.what == "settings"  ? SettingsText(*listing)
                                   : options.what == "recipes" ? RecipesText(*listing)
                                                               : listing->Text());
  return outcome;
}

void DescribeList(Question& question, ListOptions& options) {
  question.Argument("WHAT", &options.what)
      .Required()
      .OneOf({"models", "topologies", "gpus", "frameworks", "settings", "recipes"});
  question.Flag("--json", &options.json);
  AddColumns(question);
}

}  // namespace

Command ListCommand() { return MakeCommand<ListOptions>("list", DescribeList, List); }

std::map<std::string, std::vector<std::string>> NamesByType() {
  std::vector<std::string> keys;
  for (const auto& row : Settings().rows) keys.push_back(row[0].text + "=");
  return {{"KEY=VALUE", keys},
          {"KEY=VALUES", keys},
          {"MODEL", scenario::ShippedNames(SourceKind::kModel)},
          {"TOPOLOGY", scenario::ShippedNames(SourceKind::kTopology)}};
}

}  // namespace stepcast::cli
