#include "src/foreign/import.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/files.h"
#include "src/base/text_lines.h"
#include "src/base/version.h"
#include "src/foreign/framework.h"
#include "src/foreign/frameworks.h"
#include "src/foreign/python_settings.h"
#include "src/foreign/recipes.h"
#include "src/foreign/settings_files.h"
#include "src/foreign/shared_options.h"
#include "src/foreign/shell.h"
#include "src/model/architecture.h"
#include "src/plan/plan.h"
#include "src/scenario/data_root.h"
#include "src/scenario/gpu_file.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/model_file.h"
#include "src/scenario/source_names.h"
#include "src/scenario/topology_file.h"
#include "src/scenario/yaml_tree.h"
#include "src/topology/node_type.h"

namespace stepcast::foreign {
namespace {

// The result of OmegaConf's function in NeMo's files: a product of numbers.
std::optional<std::string> Product(std::string_view call) {
  constexpr std::string_view kMultiply = "multiply:";
  if (!call.starts_with(kMultiply)) return std::nullopt;
  std::string list(call.substr(kMultiply.size()));
  std::int64_t product = 1;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    std::string factor = list.substr(at, end - at);
    std::erase(factor, ' ');
    const auto number = Value::Text(factor).Integer();
    if (!number || __builtin_mul_overflow(product, *number, &product)) return std::nullopt;
    at = end + 1;
  }
  return std::to_string(product);
}

// The position of the bracket that closes "${" at `at`, over nested ones.
std::size_t Closing(const std::string& text, std::size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return at;
  }
  return text.size();
}

// The text with known variables replaced; names of unknown ones are added to `unknown`. `section`:
// the section of the text's key, "model." for "model.ffn_hidden_size". `room`: the remaining number
// of characters, since values may double one another.
std::string Replaced(const std::string& text, const Document& document, const std::string& section,
                     const std::map<std::string, std::string>& given, int depth, std::size_t& room,
                     std::vector<std::string>& unknown) {
  constexpr int kDeepest = 8;
  std::string replaced;
  for (std::size_t at = 0; at < text.size();) {
    const bool braces = text.compare(at, 2, "${") == 0;
    std::size_t end = at + (braces ? 2 : 1);
    if (text[at] != '$' || (!braces && (end >= text.size() || !IsNameCharacter(text[end])))) {
      replaced += text[at++];
      continue;
    }
    const std::size_t begin = end;
    if (braces) {
      end = Closing(text, begin - 1);
    } else {
      while (end < text.size() && IsNameCharacter(text[end])) ++end;
    }
    std::string name = text.substr(begin, end - begin);
    if (name.find("${") != std::string::npos && depth < kDeepest) {
      name = Replaced(name, document, section, given, depth + 1, room, unknown);
    }
    if (name.starts_with('.')) name = section + name.substr(1);
    at = end + (braces && end < text.size() ? 1 : 0);
    if (const auto value = given.find(name); value != given.end()) {
      replaced += value->second;
      continue;
    }
    // `${NAME:otherwise}`, as in Primus.
    const std::size_t colon = name.find(':');
    const bool of_surroundings =
        colon != std::string::npos && colon > 0 &&
        std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(colon), [](char c) {
          return IsNameCharacter(c) && std::islower(static_cast<unsigned char>(c)) == 0;
        });
    if (of_surroundings) {
      const auto value = given.find(name.substr(0, colon));
      replaced += value == given.end() ? name.substr(colon + 1) : value->second;
      continue;
    }
    if (auto product = Product(name)) {
      replaced += *product;
      continue;
    }
    const Setting* own = document.Find(name);
    // Unknown variables of the other value are unknown here too.
    if (own != nullptr && !own->value.unknown.empty()) {
      unknown.push_back(own->value.unknown.front());
      continue;
    }
    const bool known = own != nullptr && own->value.text.find('$') == std::string::npos;
    if (known && own->value.text.size() <= room) {
      room -= own->value.text.size();
      replaced += own->value.text;
    } else {
      unknown.push_back(name);
    }
  }
  return replaced;
}

}  // namespace

void ReplaceVariables(Document& document, const std::map<std::string, std::string>& given) {
  std::size_t room = 1'000'000;
  for (Setting& setting : document.settings) {
    Value& value = setting.value;
    if (value.text.find('$') == std::string::npos) continue;
    const std::string section = setting.name.substr(0, setting.name.rfind('.') + 1);
    value.text = Replaced(value.text, document, section, given, 0, room, value.unknown);
  }
}

namespace {

// The GPUs of a cluster. Loading the scenario reports mistakes in it.
struct Gpus {
  std::optional<std::int64_t> of_node, of_cluster;
};

Gpus GpusOf(const std::string& cluster, std::int64_t nodes) {
  const auto path = scenario::FindSource(cluster, "", scenario::SourceKind::kTopology);
  if (!path) return {};
  const auto topology = scenario::LoadTopology(*path);
  if (!topology) return {};
  if (const auto* flat = std::get_if<topology::FlatCluster>(&topology->description)) {
    return {1, flat->devices};
  }
  const auto& description = std::get<scenario::NodeDescription>(topology->description);
  const std::int64_t gpus = description.node_type.Count(topology::DeviceKind::kGpu);
  return {gpus, nodes * gpus};
}

// The model with this name, if it has dimensions.
std::optional<model::Architecture> ArchitectureOf(const std::string& named) {
  const auto path = scenario::FindSource(named, "", scenario::SourceKind::kModel);
  if (!path) return std::nullopt;
  const auto loaded = scenario::LoadModel(*path);
  if (!loaded) return std::nullopt;
  const auto* architecture = std::get_if<model::Architecture>(&loaded->model.source);
  if (architecture == nullptr) return std::nullopt;
  return *architecture;
}

// The training assumed for a model's name: torchtitan's FSDP2 with full recomputation, which needs
// little memory.
constexpr std::int64_t kSequence = 4096;
constexpr std::int64_t kTokensOfStep = std::int64_t{1} << 22;
constexpr std::pair<const char*, const char*> kDefaults[] = {
    {"training.parameter_dtype", "fp32"},
    {"training.optimizer", "adamw"},
    {"training.activation_checkpointing", "full"},
    {"data_parallel.framework", "fsdp2"},
    {"data_parallel.zero_stage", "3"}};

// Whether a search chooses the key, so that it need not be given.
bool IsSearched(std::string_view key) {
  return key != "model" && key != "cluster.topology" && key != "training.sequence_length";
}

struct NamedGpus {
  std::int64_t count = 1;
  std::string type;
};

constexpr std::string_view kDigits = "0123456789";

// The text with the letter x for the multiplication sign.
std::string WithPlainSign(std::string text) {
  constexpr std::string_view kSign = "\u00d7";
  for (std::size_t at; (at = text.find(kSign)) != std::string::npos;) {
    text.replace(at, kSign.size(), "x");
  }
  return text;
}

// Parses "4 x rtx-4090", "4x RTX 4090", "4 rtx-4090" or "rtx-4090".
tl::expected<NamedGpus, Diagnostic> ParseNamedGpus(const std::string& given) {
  const std::string text = WithPlainSign(given);
  const std::string meant = GpusMeant(text);
  const auto wrong = [&] {
    const bool number = !text.empty() && text.size() <= 4 && text.front() != '0' &&
                        text.find_first_not_of(kDigits) == std::string::npos;
    return tl::make_unexpected(
        Diagnostic{"command.wrong-use",
                   {"--gpus", 0, 0},
                   "the value of --gpus must be a number and a type of GPUs: " + Quoted(given),
                   fmt::format("write --gpus '{}' with the quotes; to list the types, run stepcast "
                               "list gpus",
                               !meant.empty() ? meant : (number ? text : "8") + " x h100-sxm")});
  };
  if (!meant.empty()) return wrong();
  const std::size_t end = std::min(text.find_first_not_of(kDigits), text.size());
  constexpr std::size_t kMostDigits = 7;
  if (end > kMostDigits) {
    return tl::make_unexpected(
        Diagnostic{"command.wrong-use",
                   {"--gpus", 0, 0},
                   "the number of GPUs must be at most 9999999: " + Quoted(given),
                   "write fewer GPUs, for example --gpus '1024 x h100-sxm'"});
  }
  NamedGpus gpus;
  std::size_t type = 0;
  if (end > 0) {
    type = text.find_first_not_of(" xX*", end);
    const bool apart = type != std::string::npos && type > end;
    if (!apart) return wrong();
    gpus.count = std::stoll(text.substr(0, end));
  }
  gpus.type = text.substr(type);
  gpus.type.erase(gpus.type.find_last_not_of(' ') + 1);
  std::replace(gpus.type.begin(), gpus.type.end(), ' ', '-');
  const bool numbers_only = gpus.type.find_first_not_of(kDigits) == std::string::npos && end == 0;
  if (gpus.type.empty() || numbers_only || gpus.count < 1) return wrong();
  return gpus;
}

class Importer {
 public:
  explicit Importer(const ImportRequest& request) : request_(request) {}

  Result<Imported> Run() {
    ReadOptions();
    // A value without its quotes or its equals sign ends among the files, which are then no files.
    if (!draft_.mistakes().empty()) return tl::make_unexpected(draft_.mistakes());
    if (auto surplus = BesideScenario(); !surplus.empty()) return tl::make_unexpected(surplus);
    for (const std::string& file : request_.files) Read(file);
    // A missing value does not prevent the report of other missing values.
    const bool readable =
        std::all_of(draft_.mistakes().begin(), draft_.mistakes().end(),
                    [](const Diagnostic& mistake) { return mistake.code == "foreign.missing"; });
    const bool nothing_read = sources_.empty() && !draft_.mistakes().empty();
    if (!readable || nothing_read) return tl::make_unexpected(draft_.mistakes());
    Translate();
    AskForWhatIsMissing();
    if (!draft_.mistakes().empty()) return tl::make_unexpected(draft_.mistakes());
    Imported imported;
    const std::string files = fmt::format("{}", fmt::join(request_.files, ", "));
    imported.scenario =
        WriteScenario(draft_, fmt::format("A stepcast scenario, made from {}.", files));
    // A name without a folder: paths in the scenario are relative to the working directory.
    imported.title = fmt::format("scenario of {}",
                                 std::filesystem::path(request_.files.front()).filename().string());
    imported.notes = draft_.notes();
    imported.assumed = std::move(assumed_);
    imported.omissions = OmissionText(draft_, "");
    return imported;
  }

 private:
  void ReadOptions() {
    for (const std::string& option : request_.variables) {
      const std::size_t sign = option.find('=');
      if (sign == std::string::npos || sign == 0) {
        draft_.Report({"command.wrong-use",
                       {"--variable " + option, 0, 0},
                       "--variable needs NAME=VALUE: " + Quoted(option),
                       "write --variable TP=4"});
        continue;
      }
      variables_[option.substr(0, sign)] = option.substr(sign + 1);
    }
    const auto given = [this](const char* key, const std::string& value, const char* option) {
      if (!value.empty()) {
        draft_.Override(key, PathOf(value), fmt::format("{} {}", option, value));
      }
    };
    given("model", ModelNamed(request_.model), "--model");
    given("cluster.topology", request_.cluster, "--cluster");
    const auto count = [&given](const char* key, const std::optional<std::int64_t>& value,
                                const char* option) {
      if (value) given(key, fmt::format("{}", *value), option);
    };
    count("cluster.nodes", request_.nodes, "--nodes");
    count("training.sequence_length", request_.sequence_length, "--sequence-length");
    count("training.global_batch_size", request_.global_batch, "--global-batch");
    ReadGpus();
    // Last, so that hints with --set work beside every other option.
    for (const std::string& option : request_.set) {
      const std::size_t sign = option.find('=');
      if (sign == std::string::npos || sign == 0) {
        draft_.Report({"input.bad-override",
                       {"--set " + option, 0, 0},
                       "--set needs KEY=VALUE: " + Quoted(option),
                       sign == 0 ? "write --set training.micro_batch_size=2"
                                 : fmt::format("write --set {}=VALUE", option)});
        continue;
      }
      ReadOverride(option.substr(0, sign), option.substr(sign + 1), "--set " + option);
    }
  }

  // Whether the key has a value, or gets one from the command.
  bool Given(std::string_view key) const {
    return draft_.Covers(key) ||
           std::find(request_.varied.begin(), request_.varied.end(), key) != request_.varied.end();
  }

  void ReadGpus() {
    if (request_.gpus.empty()) return;
    if (auto fault = TwoClusters(request_)) return draft_.Report(*std::move(fault));
    const auto asked = ParseNamedGpus(request_.gpus);
    if (!asked) return draft_.Report(asked.error());
    // The machine replaces a cluster in the files.
    for (const char* key : {"cluster.topology", "cluster.nodes", "cluster.devices"}) {
      draft_.TakeOut(key);
    }
    const std::string option = "--gpus " + request_.gpus;
    draft_.Override("cluster.gpu", asked->type, option);
    draft_.Override("cluster.gpus", fmt::format("{}", asked->count), option);
  }

  // The value is YAML, and may have several lines.
  void ReadOverride(const std::string& key, const std::string& value, const std::string& option) {
    Diagnostics mistakes;
    const auto tree = scenario::ParseYaml(value, option, mistakes, false);
    for (Diagnostic& mistake : mistakes) draft_.Report(std::move(mistake));
    if (!tree) return;
    switch ((*tree)->kind) {
      case scenario::NodeKind::kNull:
        return draft_.TakeOut(key);
      case scenario::NodeKind::kScalar:
        return draft_.Override(key, (*tree)->scalar, option);
      case scenario::NodeKind::kSequence:
      case scenario::NodeKind::kMapping:
        return draft_.Override(key, ScenarioValue::Yaml(scenario::CanonicalText(**tree)), option);
    }
  }

  // The path by which the scenario names a file of the working directory.
  std::string PathOf(const std::string& named) const {
    std::error_code error;
    if (!request_.absolute_paths || !std::filesystem::exists(named, error)) return named;
    return std::filesystem::absolute(named, error).lexically_normal().string();
  }

  // A recipe's name given instead of a file.
  bool ReadRecipe(const std::string& name) {
    if (!IsRecipe(name)) return false;
    const Recipe& recipe = *RecipeOf(name);
    assumed_.push_back(
        fmt::format("the settings of Megatron-Bridge's recipe {} (to use the model without the "
                    "recipe, write {})",
                    recipe.name, recipe.model));
    Document document{.file = name};
    document.settings.push_back({"recipe", Value::Text(name), {"recipe " + name, 0, 0}});
    return Offer(std::move(document));
  }

  // A model without a training.
  bool ReadModelName(const std::string& name) {
    if (!IsModelName(name)) return false;
    draft_.State("model", ModelNamed(name), {name, 0, 0});
    return true;
  }

  // One of our models, by its own name or the Hub's.
  static std::string ModelNamed(const std::string& name) {
    if (scenario::FindSource(name, "", scenario::SourceKind::kModel)) return name;
    return ModelOfTheHub(name).value_or(name);
  }

  void Read(const std::string& file) {
    if (ReadRecipe(file) || ReadModelName(file)) return;
    Diagnostics mistakes;
    // Scenarios of the data root are found as other commands find them.
    const std::string path =
        request_.takes_scenario ? scenario::FindInput(file, "").value_or(file) : file;
    const auto text = ReadTextFile(path, mistakes);
    if (!text) {
      for (Diagnostic& mistake : mistakes) {
        const std::string hint =
            mistake.code == "file.not-found" ? scenario::HintOfName(file) : std::string();
        if (!hint.empty()) {
          mistake.message = "there is no such file or model";
          mistake.hint = hint;
        }
        draft_.Report(std::move(mistake));
      }
      return;
    }
    if (text->size() > kLargestConfiguration) {
      return draft_.Report({"file.too-large",
                            {file, 0, 0},
                            fmt::format("a configuration file must not be larger than {} MiB",
                                        kLargestConfiguration >> 20),
                            "check that the path is correct"});
    }
    switch (SyntaxOf(file, *text)) {
      case Syntax::kToml:
        return Take(ParseToml(*text, file));
      case Syntax::kShell:
        return ReadScript(*text, file);
      case Syntax::kPython:
        return Take(ParsePythonSettings(*text, file, request_.function));
      case Syntax::kYaml:
        return Take(ParseYamlSettings(*text, path));
    }
  }

  void ReadScript(const std::string& text, const std::string& file) {
    ShellDocuments script = ParseShellSettings(text, file, variables_);
    for (const auto& [name, what] : script.unfollowed) draft_.SayWhatSets(name, what);
    bool recognised = Offer(std::move(script.command));
    for (const auto& [name, place] : script.open) {
      const auto words = script.compared.find(name);
      if (words != script.compared.end()) {
        draft_.AskForVariable(name, "a part of the command", place, words->second);
      } else if (name != "@") {
        draft_.Note(
            fmt::format("{}: the value of {} is unknown and is assumed to be empty; to set the "
                        "value, add --variable '{}=...'",
                        Origin(place), name, name));
      }
    }
    for (const auto& [embedded, line] : script.embedded) {
      auto document = ParseYamlSettings(embedded, file);
      if (!document) continue;  // a file of another kind
      for (Setting& setting : document->settings) setting.location.line += line - 1;
      recognised = Offer(*std::move(document)) || recognised;
    }
    if (recognised) return;
    draft_.Report(
        {"foreign.unknown-file",
         {file, 0, 0},
         "the script starts no training program that stepcast knows",
         script.scripts.empty()
             ? fmt::format("stepcast reads {}", fmt::join(Forms(), ", "))
             : fmt::format("the script starts {}: use the path of the started script instead, and "
                           "add --variable NAME=VALUE for each variable that the first script sets",
                           fmt::join(script.scripts, ", "))});
  }

  // The arguments beside a scenario, which needs no other files.
  Diagnostics BesideScenario() const {
    Diagnostics surplus;
    const auto& files = request_.files;
    const auto scenario = std::find_if(files.begin(), files.end(), IsScenarioFile);
    if (files.size() < 2 || scenario == files.end()) return surplus;
    for (const std::string& file : files) {
      if (&file == &*scenario) continue;
      surplus.push_back(
          {"command.wrong-use",
           {"command line", 0, 0},
           fmt::format("unexpected argument beside the scenario {}: {}", Quoted(*scenario),
                       Quoted(file)),
           IsScenarioFile(file)
               ? fmt::format("to compare two scenarios, run stepcast compare {} {}", *scenario,
                             file)
               : "remove the argument; if it belongs to the value of an option, put the value in "
                 "quotes"});
    }
    return surplus;
  }

  // Adds a document that is a file of its own.
  void Take(Result<Document> document) {
    if (!document) {
      for (Diagnostic& mistake : document.error()) draft_.Report(std::move(mistake));
      return;
    }
    if (IsModel(*document) || IsModelFile(*document)) {
      draft_.State("model", PathOf(document->file), {document->file, 0, 0});
    } else if (request_.takes_scenario && request_.files.size() == 1 && document->Has("stepcast")) {
      StateScenario(*document);
    } else if (!Offer(*document)) {
      ReportUnknown(*document);
    }
  }

  // Copies a scenario. Paths in it are relative to its folder.
  void StateScenario(const Document& scenario) {
    is_scenario_ = true;
    const std::string folder = scenario::FolderOf(scenario.file);
    for (const Setting& setting : scenario.settings) {
      const std::string& key = setting.name;
      const bool of_cluster = key == "cluster" || key.starts_with("cluster.");
      // Another description of the cluster replaces the scenario's.
      const bool replaced =
          of_cluster &&
          (!request_.gpus.empty() || (!request_.cluster.empty() && key.starts_with("cluster.gpu")));
      if (key == "stepcast" || replaced) continue;
      ScenarioValue value = setting.value.text;
      if (setting.value.kind == Value::Kind::kNothing) continue;
      if (setting.value.kind == Value::Kind::kList) {
        value = ScenarioValue::Yaml(fmt::format("[{}]", fmt::join(setting.value.items, ", ")));
      }
      const bool source = key == "model" || key == "cluster.topology" || key == "calibration";
      std::error_code error;
      const auto beside = std::filesystem::path(folder) / setting.value.text;
      if (source && !folder.empty() && std::filesystem::exists(beside, error)) {
        value = std::filesystem::absolute(beside, error).lexically_normal().string();
      } else if (source) {
        value = PathOf(setting.value.text);
      }
      draft_.State(key, std::move(value), setting.location);
    }
  }

  // Adds the document if a framework reads it.
  bool Offer(Document document) {
    constexpr std::size_t kMost = Document::kMostSettings;
    if (!document.too_large && document.settings.size() > kMost) {
      document.too_large = document.settings[kMost].location;
    }
    if (document.too_large) {
      draft_.Report(
          {"file.too-large", *document.too_large,
           fmt::format(
               "a configuration must have at most {} settings, with names of at most {} characters",
               kMost, Document::kLongestName),
           "check that the path is correct"});
      return true;
    }
    ReplaceVariables(document, variables_);
    auto recognised = Recognise(document);
    if (!recognised) return false;
    sources_.push_back(*std::move(recognised));
    OfferNested(sources_.back().document);
    return true;
  }

  // DeepSpeed's configuration nested in another file, where usually its file's name is.
  void OfferNested(const Document& document) {
    constexpr std::string_view kAbove = "deepspeed.";
    Document nested{.file = document.file};
    for (const Setting& setting : document.settings) {
      if (!setting.name.starts_with(kAbove)) continue;
      nested.settings.push_back(setting);
      nested.settings.back().name.erase(0, kAbove.size());
    }
    if (!nested.settings.empty()) Offer(std::move(nested));
  }

  static std::vector<std::string_view> Forms() {
    std::vector<std::string_view> forms;
    for (const Framework* framework : Frameworks()) forms.push_back(framework->form);
    return forms;
  }

  void ReportUnknown(const Document& document) {
    if (IsScenario(document)) {
      draft_.Report(
          {"foreign.unknown-file",
           {document.file, 0, 0},
           "the file is already a scenario",
           fmt::format("to forecast the scenario, run stepcast simulate {}", document.file)});
      return;
    }
    const std::string_view what = OtherProgramOf(document);
    if (IsTopology(document)) {
      draft_.Report({"foreign.unknown-file",
                     {document.file, 0, 0},
                     "the file is a stepcast topology, which describes a cluster but no training",
                     fmt::format("write a model or a scenario, and add the topology with "
                                 "--cluster: llama3.1-8b --cluster {} --nodes 1",
                                 document.file)});
      return;
    }
    draft_.Report({"foreign.unknown-file",
                   {document.file, 0, 0},
                   what.empty() ? "the file is not a configuration of a program that stepcast knows"
                                : fmt::format("the file is {}, which stepcast cannot read", what),
                   fmt::format("stepcast reads {}", fmt::join(Forms(), ", "))});
  }

  void Translate() {
    // Programs that others start, such as DeepSpeed, come after those others.
    std::stable_sort(sources_.begin(), sources_.end(),
                     [](const Recognised& a, const Recognised& b) {
                       return !a.framework->adds_to_others && b.framework->adds_to_others;
                     });
    const Surroundings surroundings = MakeSurroundings();
    std::vector<Reading> readings;
    for (const Recognised& source : sources_) {
      readings.emplace_back(*source.framework, source.document, draft_, surroundings);
    }
    for (Reading& reading : readings) reading.ReadRows();
    for (Reading& reading : readings) reading.ReadRules();
    for (Reading& reading : readings) reading.ReadDefaults();
    TakeOutIdleActivation();
    if (sources_.empty() && !is_scenario_) AssumeTraining();
    if (!draft_.Covers("cluster.gpu") && !is_scenario_) {
      draft_.Assume("cluster.nodes", "1", "assumed; --nodes N");
    }
    if (request_.states_software) StateSoftware();
    if (!request_.files.empty()) {
      const std::string& file = request_.files.front();
      const Entry* const model = draft_.Find("model");
      // The model may have been replaced by an option.
      const bool own = model == nullptr || model->value.text == ModelNamed(file);
      const std::string& named = own || !IsModelName(file) ? file : model->value.text;
      const std::string stem =
          IsModelName(named) ? named : std::filesystem::path(named).stem().string();
      draft_.Assume("name", stem, "the file's name");
    }
  }

  // transformers' own kernels differ from the default only for GELU (docs/formats/training.md).
  void TakeOutIdleActivation() {
    const char* const key = "training.activation_function";
    const Entry* const kernels = draft_.Find(key);
    if (kernels == nullptr || kernels->value != "huggingface" || !kernels->location.file.empty()) {
      return;  // not assumed
    }
    const auto model = ArchitectureNamed();
    if (model && model::IsGated(model->activator)) draft_.TakeOut(key);
  }

  // For a model without other files.
  void AssumeTraining() {
    const auto assume = [this](const char* key, const std::string& value) {
      if (Given(key)) return;
      draft_.Assume(key, value, "assumed");
      assumed_.push_back(fmt::format("{}={}", key, value));
    };
    const Surroundings surroundings = MakeSurroundings();
    const auto model = ArchitectureNamed();
    const std::int64_t longest =
        model && model->max_positions > 0 ? model->max_positions : kSequence;
    assume("training.sequence_length", fmt::format("{}", std::min(longest, kSequence)));
    if (request_.for_search) {
      const std::int64_t sequence = draft_.Degree("training.sequence_length");
      const std::int64_t gpus = surroundings.devices().value_or(1);
      std::int64_t batch = gpus;
      while (2 * batch * sequence <= kTokensOfStep) batch *= 2;
      assume("training.global_batch_size", fmt::format("{}", batch));
      return;
    }
    assume("training.micro_batch_size", "1");
    assume("training.precision", AssumedPrecision());
    for (const auto& [key, value] : kDefaults) assume(key, value);
    if (!Given("training.global_batch_size")) assume("training.gradient_accumulation", "1");
  }

  // The first of these types that the cluster's GPU computes in; bf16 if the GPU is unknown.
  std::string AssumedPrecision() const {
    const std::optional<topology::Gpu> gpu = GpuOfCluster();
    for (const DataType type : {DataType::kBf16, DataType::kFp16}) {
      if (!gpu || gpu->PeakOf(type) > FlopRate()) return std::string(Name(type));
    }
    return std::string(Name(DataType::kFp32));
  }

  // Nothing if there is no such GPU; loading the scenario reports mistakes.
  std::optional<topology::Gpu> GpuOfCluster() const {
    Diagnostics ignored;
    if (const Entry* named = draft_.Find("cluster.gpu")) {
      return scenario::FindGpu(named->value.text, "", {}, ignored);
    }
    const Entry* cluster = draft_.Find("cluster.topology");
    if (cluster == nullptr) return std::nullopt;
    const auto path =
        scenario::FindSource(cluster->value.text, "", scenario::SourceKind::kTopology);
    if (!path) return std::nullopt;
    const auto topology = scenario::LoadTopology(*path);
    return topology ? topology->gpu : std::nullopt;
  }

  void StateSoftware() {
    const auto assume = [this](const char* key, const Version& newest) {
      // Quoted, since some programs read 2.30 without quotes as the number 2.3.
      draft_.Assume(key, ScenarioValue::Yaml(fmt::format("\"{}.{}\"", newest.major, newest.minor)),
                    "assumed: the newest release that stepcast models");
    };
    assume("software.torch", plan::kNewestTorch);
    assume("software.nccl", plan::kNewestNccl);
  }

  // The model's architecture, if the draft names a model that has one.
  std::optional<model::Architecture> ArchitectureNamed() const {
    const Entry* named = draft_.Find("model");
    return named == nullptr ? std::nullopt : ArchitectureOf(named->value.text);
  }

  Surroundings MakeSurroundings() {
    const auto gpus = [this] {
      if (draft_.Covers("cluster.gpu")) {
        return Gpus{.of_node = {}, .of_cluster = draft_.Integer("cluster.gpus")};
      }
      const Entry* cluster = draft_.Find("cluster.topology");
      if (cluster == nullptr) return Gpus{};
      return GpusOf(cluster->value.text, draft_.Integer("cluster.nodes").value_or(1));
    };
    const auto architecture = [this] { return ArchitectureNamed(); };
    // A dimension from the draft, or from its model.
    const auto of_model =
        [this, architecture](
            const char* key,
            std::int64_t model::Architecture::*dimension) -> std::optional<std::int64_t> {
      if (const auto stated = draft_.Integer(key)) return stated;
      const auto found = architecture();
      if (!found) return std::nullopt;
      return (*found).*dimension;
    };
    return {.devices = [gpus] { return gpus().of_cluster; },
            .gpus_per_node = [gpus] { return gpus().of_node; },
            .hidden_size =
                [of_model] { return of_model("model.hidden_size", &model::Architecture::hidden); },
            .layers =
                [of_model] {
                  return of_model("model.num_hidden_layers", &model::Architecture::layers);
                },
            .experts = [this, architecture]() -> std::optional<std::int64_t> {
              if (const auto stated = draft_.Integer("model.num_experts")) return stated;
              const auto found = architecture();
              if (!found) return std::nullopt;
              return found->experts.count;
            },
            .has_file_of =
                [this](std::string_view name) {
                  return std::any_of(
                      sources_.begin(), sources_.end(),
                      [name](const Recognised& source) { return source.framework->name == name; });
                },
            .accelerate_option = [this](std::string_view name) -> std::string {
              for (const Recognised& source : sources_) {
                if (source.framework->name != "accelerate") continue;
                const Setting* setting = source.document.Find(name);
                if (setting != nullptr) return setting->value.text;
              }
              return {};
            }};
  }

  void AskForWhatIsMissing() {
    if (is_scenario_) return;  // loading it says what is missing
    struct Need {
      const char* key;
      const char* what;
      const char* hint;
    };
    constexpr Need kNeeds[] = {
        {"model", "the trained model",
         "add --model config.json, or --model NAME; to list the names, run stepcast list models"},
        {"cluster.topology", "the training cluster",
         "add --gpus '8 x h100-sxm', or --cluster dgx-h100 --nodes 2; to list clusters, run "
         "stepcast list topologies"},
        {"training.sequence_length", "the length of a sequence",
         "add --set training.sequence_length=4096"},
        {"training.micro_batch_size", "the number of sequences in a micro-batch",
         "add --set training.micro_batch_size=1"},
        {"training.precision", "the precision of the model's computations",
         "add --set training.precision=bf16"},
        {"training.optimizer", "the optimizer", "add --set training.optimizer=adamw"},
        {"data_parallel.framework", "the training framework",
         "add --set data_parallel.framework=fsdp2 --set data_parallel.zero_stage=3"},
        {"data_parallel.zero_stage",
         "the ZeRO stage (the tensors that are sharded over data-parallel ranks)",
         "add --set data_parallel.zero_stage=1"},
    };
    const std::string file = request_.files.empty() ? "command line" : request_.files.front();
    for (const Need& need : kNeeds) {
      if (Given(need.key)) continue;
      if (need.key == std::string_view("cluster.topology") && draft_.Covers("cluster.gpu"))
        continue;
      if (request_.for_search && sources_.empty() && IsSearched(need.key)) continue;
      // The variable asked for may determine it.
      const bool of_plan = std::string_view(need.key).find('_') != std::string_view::npos ||
                           std::string_view(need.key).starts_with("training");
      if (of_plan && draft_.asked_for_variables()) continue;
      if (need.key == std::string_view("model") && !draft_.named_model().empty()) {
        draft_.Report({"foreign.missing",
                       {file, 0, 0},
                       fmt::format("the file does not contain the dimensions of the model {}",
                                   Quoted(draft_.named_model())),
                       need.hint});
        continue;
      }
      draft_.Report({"foreign.missing",
                     {file, 0, 0},
                     fmt::format("the input does not specify {} ({})", need.what, Quoted(need.key)),
                     need.hint});
    }
    if (request_.for_search && sources_.empty()) return;
    if (!draft_.asked_for_variables() && !Given("training.gradient_accumulation") &&
        !Given("training.global_batch_size")) {
      draft_.Report(
          {"foreign.missing",
           {file, 0, 0},
           "the input does not specify the number of micro-batches in a step "
           "('training.gradient_accumulation')",
           "add --set training.gradient_accumulation=1, or --set training.global_batch_size=256"});
    }
  }

  const ImportRequest& request_;
  Draft draft_;
  std::vector<Recognised> sources_;
  bool is_scenario_ = false;  // the only file is a scenario
  std::map<std::string, std::string> variables_;
  std::vector<std::string> assumed_;
};

}  // namespace

std::string GpusMeant(std::string_view text) {
  constexpr std::string_view kSigns = " xX*:";
  constexpr std::size_t kMostDigits = 7;
  std::int64_t count = 1;
  int numbers = 0;
  const auto take = [&](std::string_view digits) {
    if (digits.empty() || digits.size() > kMostDigits ||
        digits.find_first_not_of(kDigits) != std::string_view::npos) {
      return false;
    }
    ++numbers;
    return !__builtin_mul_overflow(count, std::stoll(std::string(digits)), &count);
  };
  // Numbers before the type: "2x8x" of "2x8xh100".
  for (;;) {
    const std::size_t end = std::min(text.find_first_not_of(kDigits), text.size());
    const std::size_t next = text.find_first_not_of(kSigns, end);
    // "4 rtx-4090" has a number, "4090 ti" may be a type.
    if (end == 0 || next == end || next == std::string_view::npos ||
        (numbers > 0 && text.substr(end, next - end).find_first_not_of(' ') == text.npos)) {
      break;
    }
    if (!take(text.substr(0, end))) return "";
    text.remove_prefix(next);
  }
  // A number behind the type: ":8" of "h100:8".
  bool behind = false;
  for (const std::string_view sign : {" x ", " X ", ":", "*"}) {
    const std::size_t at = text.rfind(sign);
    if (at == std::string_view::npos || at == 0) continue;
    std::string_view digits = text.substr(at + sign.size());
    digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
    if (!take(digits)) return "";
    text = text.substr(0, text.find_last_not_of(' ', at - 1) + 1);
    behind = true;
    break;
  }
  constexpr std::int64_t kMostGpus = 9'999'999;
  const bool written_so = !behind && numbers < 2;
  if (written_so || text.empty() || count < 1 || count > kMostGpus ||
      text.find_first_of("x*:/") == 0 || text.find_first_of("*:") != std::string_view::npos) {
    return "";
  }
  return fmt::format("{} x {}", count, text);
}

std::optional<Diagnostic> TwoClusters(const ImportRequest& request) {
  if (request.gpus.empty() || (request.cluster.empty() && !request.nodes)) return std::nullopt;
  std::string hint = "to use several nodes, write --cluster TOPOLOGY --nodes N without --gpus";
  const auto gpus =
      Value::Text(request.gpus.substr(0, request.gpus.find_first_of(" xX*"))).Integer();
  const std::int64_t of_node = GpusOf(request.cluster, 1).of_node.value_or(1);
  if (gpus && *gpus > 0 && of_node > 1 && *gpus % of_node == 0) {
    hint = fmt::format(
        "the topology has nodes of {} GPUs; write --cluster {} --nodes {} without --gpus", of_node,
        request.cluster, *gpus / of_node);
  }
  return Diagnostic{"command.wrong-use",
                    {"--gpus " + request.gpus, 0, 0},
                    "--gpus describes a cluster of one machine, but --cluster and --nodes describe "
                    "a different cluster",
                    std::move(hint)};
}

Result<std::string> ClusterOfGpus(const std::string& gpus) {
  const auto named = ParseNamedGpus(gpus);
  if (!named) return tl::make_unexpected(Diagnostics{named.error()});
  return fmt::format("{{gpu: {}, gpus: {}}}", YamlScalar(named->type), named->count);
}

Result<Imported> Import(const ImportRequest& request) { return Importer(request).Run(); }

}  // namespace stepcast::foreign
