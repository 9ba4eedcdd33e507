#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "src/foreign/python_settings.h"
#include "src/foreign/readers.h"
#include "src/foreign/recipes.h"

namespace stepcast::foreign {
namespace {

bool StartsWithAny(std::string_view name, std::string_view prefixes) {
  const std::vector<std::string_view> all = SplitWords(prefixes);
  return std::any_of(all.begin(), all.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string Hyphens(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

class Renamer {
 public:
  explicit Renamer(const Document& document) : document_(document) { result_.file = document.file; }

  Document Run() {
    for (const Setting& setting : document_.settings) Rename(setting);
    Add("group-query-attention", "num-query-groups");
    AddPrecision();
    return std::move(result_);
  }

 private:
  void Rename(Setting setting) {
    const scenario::YamlNode& table = Table<NemoTable>();
    for (const auto& row : scenario::Child(table, "renamed")->items) {
      const auto argument = WordFor(TextAt(*row, "names"), setting.name);
      if (!argument) continue;
      if (argument->empty() || setting.value.kind == Value::Kind::kNothing) return;
      setting.name = *argument;
      if (const auto word = WordFor(TextAt(*row, "words"), setting.value.text)) {
        setting.written_value = setting.value.Shown();
        setting.value.text = std::string(*word);
      }
      result_.settings.push_back(std::move(setting));
      return;
    }
    const std::string_view silent = TextAt(table, "silent");
    const std::string_view name = setting.name;
    if (name.ends_with(kUnderCondition)) {
      result_.settings.push_back(std::move(setting));
      return;
    }
    // Files that list all settings also list disabled ones.
    const std::string& text = setting.value.text;
    const bool off = setting.value.kind == Value::Kind::kText &&
                     (text.empty() || text == "none" || setting.value.Boolean() == false);
    if (off || name.ends_with("_target_") || name.ends_with("_call_")) return;
    if (name.starts_with("model.")) {
      const std::string_view own = name.substr(std::string_view("model.").size());
      if (StartsWithAny(own, TextAt(table, "silent_in_model")) || StartsWithAny(name, silent)) {
        return;
      }
      setting.name = Hyphens(std::string(own));
      if (setting.value.kind != Value::Kind::kNothing) result_.settings.push_back(setting);
      return;
    }
    if (StartsWithAny(name, silent)) return;
    // Arguments of recipes have Megatron-LM's names.
    if (name.find('.') == std::string_view::npos) setting.name = Hyphens(setting.name);
    result_.settings.push_back(std::move(setting));
  }

  // Adds a switch implied by another setting, at its position.
  void Add(const char* name, const char* from) {
    const Setting* setting = result_.Find(from);
    if (setting == nullptr || result_.Find(name) != nullptr) return;
    result_.settings.push_back({name, Value::Text("true"), setting->location});
  }

  // The trainer's precision, and the model's FP8 switches.
  void AddPrecision() {
    const Setting* stated = result_.Find("precision");
    const std::string precision = stated == nullptr ? "" : stated->value.text;
    const Location location = stated == nullptr ? Location{} : stated->location;
    const Setting* enabled = result_.Find("fp8-enabled");
    const Setting* hybrid = result_.Find("fp8-hybrid-format");
    const bool fp8 = enabled != nullptr && enabled->value.Boolean().value_or(false);
    std::vector<Setting> added;
    if (precision.find("bf16") != std::string::npos) {
      added.push_back({"bf16", Value::Text("true"), location});
    } else if (precision.find("16") != std::string::npos) {
      added.push_back({"fp16", Value::Text("true"), location});
    }
    if (fp8) {
      const bool both = hybrid != nullptr && hybrid->value.Boolean().value_or(false);
      added.push_back({"fp8-format", Value::Text(both ? "hybrid" : "e4m3"), enabled->location});
    }
    if (precision.find("fp8") != std::string::npos) {
      const char* recipe = precision.find("mx") != std::string::npos        ? "mxfp8"
                           : precision.find("current") != std::string::npos ? "tensorwise"
                           : precision.find("delayed") != std::string::npos ? "delayed"
                                                                            : "blockwise";
      added.push_back({"fp8-format", Value::Text("hybrid"), location});
      added.push_back({"fp8-recipe", Value::Text(recipe), location});
    }
    std::erase_if(result_.settings, [](const Setting& setting) {
      return setting.name == "precision" || setting.name == "fp8-enabled" ||
             setting.name == "fp8-hybrid-format" || setting.name == "fp8-e4m3-format";
    });
    std::move(added.begin(), added.end(), std::back_inserter(result_.settings));
  }

  const Document document_;
  Document result_;
};

}  // namespace

// Megatron-Bridge's sections by the names of ConfigContainer. Older files have `model_config`, or
// nest all sections below `ConfigContainer`.
Document Sections(Document document) {
  constexpr std::string_view kContainer = "ConfigContainer.";
  for (Setting& setting : document.settings) {
    setting.written = setting.name;
    if (setting.name.starts_with(kContainer)) setting.name.erase(0, kContainer.size());
    const std::size_t dot = setting.name.find('.');
    constexpr std::string_view kEnd = "_config";
    if (dot == std::string::npos || dot < kEnd.size()) continue;
    if (setting.name.compare(dot - kEnd.size(), kEnd.size(), kEnd) == 0) {
      setting.name.erase(dot - kEnd.size(), kEnd.size());
    }
  }
  return document;
}

namespace {

// The option that names a recipe, in scripts of Megatron-Bridge and NeMo and in our own.
constexpr std::string_view kNamesRecipe[] = {
    "recipe", "factory", "recipe_name", "recipe-name", "model_recipe_name", "model-recipe-name"};

}  // namespace

std::optional<Document> NemoDocument(const Document& original) {
  Document document = Sections(original);
  // Megatron-LM's own YAML (--yaml-cfg): two of its sections contain the names of NeMo's `model`.
  if (document.Has("language_model") && document.Has("model_parallel")) {
    for (Setting& setting : document.settings) {
      for (const std::string_view section : {"language_model.", "model_parallel."}) {
        if (!setting.name.starts_with(section)) continue;
        setting.name.replace(0, section.size(), "model.");
        break;
      }
    }
    return Renamer(std::move(document)).Run();
  }
  for (const std::string_view option : kNamesRecipe) {
    const Setting* named = document.Find(option);
    if (named == nullptr || named->value.kind != Value::Kind::kText) continue;
    const Recipe* recipe = RecipeOf(named->value.text);
    const Location location = named->location;
    if (recipe != nullptr) {
      std::erase_if(document.settings,
                    [option](const Setting& setting) { return setting.name == option; });
      return Renamer(WithRecipe(*recipe, location, std::move(document))).Run();
    }
    // The rules report it, with the known names.
    if (option == "recipe") {
      Document unknown{.file = document.file};
      unknown.settings.push_back({"recipe", Value::Text(named->value.text), location});
      return unknown;
    }
  }
  const bool of_model = document.Has("model.tensor_model_parallel_size") ||
                        document.Has("model.cross_entropy_fusion_impl") ||
                        document.Has("model.seq_length");
  const bool first = document.Has("trainer") && of_model;
  const bool bridge = of_model && (document.Has("train") || document.Has("ddp"));
  if (!first && !bridge) return std::nullopt;
  return Renamer(std::move(document)).Run();
}

}  // namespace stepcast::foreign
