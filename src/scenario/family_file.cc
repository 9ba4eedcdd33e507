#include "src/scenario/family_file.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/model/member_names.h"
#include "src/scenario/data_root.h"
#include "src/scenario/dimension_reader.h"
#include "src/scenario/source_names.h"

namespace stepcast::scenario {
namespace {

// `own` over `base`: entries of the same key replace each other, further ones follow.
YamlTree Merged(const YamlNode& base, const YamlNode& own) {
  auto merged = std::make_shared<YamlNode>(base);
  merged->position = own.position;
  for (const YamlNode::Entry& entry : own.entries) {
    YamlNode::Entry* same = merged->Find(entry.key);
    if (same == nullptr) {
      merged->entries.push_back(entry);
    } else {
      *same = entry;
    }
  }
  merged->items.insert(merged->items.end(), own.items.begin(), own.items.end());
  return merged;
}

// Sections that a file has besides those of the family that it extends.
bool IsInherited(std::string_view section) {
  for (const char* inherited : {"config", "null_values", "refused", "warned", "ignored", "model"}) {
    if (section == inherited) return true;
  }
  return false;
}

// The family with the sections of the family that it extends.
std::optional<Node> Extended(const Node& family, Diagnostics& diagnostics) {
  const YamlNode* name = Child(*family.tree(), "extends");
  if (name == nullptr) return family;
  const std::optional<Node> base = ReadFamily(FamilyPath(name->scalar), diagnostics);
  if (!base) return std::nullopt;
  auto whole = std::make_shared<YamlNode>(*family.tree());
  for (const YamlNode::Entry& entry : base->tree()->entries) {
    if (YamlNode::Entry* own = whole->Find(entry.key)) {
      if (IsInherited(entry.key)) own->value = Merged(*entry.value, *own->value);
    } else if (IsInherited(entry.key) || entry.key == "windows") {
      whole->entries.push_back(entry);
    }
  }
  return Node(std::move(whole), family.path());
}

// A family of models that are given by their dimensions has `typical`.
bool HasDimensions(const YamlNode& family) { return Child(family, "typical") != nullptr; }

std::optional<Node> Shipped(const std::string& name, Diagnostics& diagnostics) {
  const std::vector<std::string> shipped = NamesIn(kFamilies);
  if (std::find(shipped.begin(), shipped.end(), name) == shipped.end()) return std::nullopt;
  return ReadDocument(FamilyPath(name), diagnostics);
}

// Module names by field.
using Names = std::map<std::string, std::string>;

void AddNames(const YamlNode& family, Names& names) {
  const YamlNode* own = Child(family, "names");
  if (own == nullptr) return;
  for (const YamlNode::Entry& entry : own->entries) names[entry.key] = entry.value->scalar;
}

// The names of the family and, where it has none, of the families that it is like.
Names NamesWithLike(const YamlNode& family, std::string_view like_by_default,
                    Diagnostics& diagnostics) {
  Names names;
  const YamlNode* stated = Child(family, "like");
  const std::string like = stated == nullptr ? std::string(like_by_default) : stated->scalar;
  if (!like.empty()) {
    const std::optional<Node> base = Shipped(like, diagnostics);
    if (base && HasDimensions(*base->tree())) {
      names = NamesWithLike(*base->tree(), "", diagnostics);
    } else {
      diagnostics.push_back(
          {"input.unknown-word",
           stated == nullptr ? family.position.location() : stated->position.location(),
           fmt::format("there is no family of this name: {}", Quoted(like)),
           fmt::format("write one of the families {}, or remove 'like'",
                       fmt::join(FamiliesOfDimensions(), ", "))});
    }
  }
  AddNames(family, names);
  return names;
}

std::shared_ptr<model::Family> Named(const Node& family, std::string name, const Names& names,
                                     Diagnostics& diagnostics) {
  std::string unknown;
  auto made = model::MakeFamily(std::move(name), names, &unknown);
  if (made == nullptr) {
    diagnostics.push_back({"model.family", LocationOf(family.tree(), "names." + unknown),
                           fmt::format("there is no module of this name: {}", Quoted(unknown)),
                           "write a module from the list in docs/formats/model.md"});
  }
  return made;
}

// The names of a family of blocks. A module that it does not name has a general name, unless its
// own name is empty: then the family has no such module.
std::shared_ptr<const model::Family> OfBlocks(const Node& family, std::string name,
                                              Diagnostics& diagnostics) {
  Names names = NamesWithLike(*family.tree(), "llama", diagnostics), own, general;
  AddNames(*family.tree(), own);
  if (const auto blocks = ReadDocument(FamilyPath("blocks"), diagnostics)) {
    AddNames(*blocks->tree(), general);
  }
  for (const auto& [key, text] : general) {
    if (std::string& known = names[key]; known.empty() && !own.contains(key)) known = text;
  }
  return Named(family, std::move(name), names, diagnostics);
}

using Traits = model::FamilyTraits;
constexpr auto kTraits = model::kNamedMembers<
    &Traits::encoder, &Traits::post_norm, &Traits::one_qkv, &Traits::one_gate_up,
    &Traits::whole_heads, &Traits::shares_norm, &Traits::latent, &Traits::needs_experts,
    &Traits::no_biases, &Traits::projection_first, &Traits::norms_in_order, &Traits::norms_first,
    &Traits::router_first, &Traits::experts_by_input, &Traits::weights_by_input,
    &Traits::norms_after_positions, &Traits::full_without_positions, &Traits::torchtitan>;

void ReadTraits(MappingReader& reader, model::FamilyTraits& traits) {
  const auto words = reader.ReadSequence("traits", Need::kOptional);
  if (!words) return;
  std::vector<std::string_view> known;
  for (const auto& trait : kTraits) known.push_back(trait.name);
  for (const Node& word : *words) {
    if (const auto index = ReadWordIndex(word, known, reader.diagnostics())) {
      traits.*kTraits[*index].member = true;
    }
  }
}

// The words of a sequence, by the names of the values.
template <typename T>
std::vector<T> ReadAllowed(MappingReader& reader, std::string_view key,
                           std::initializer_list<T> values) {
  std::vector<T> allowed;
  const Words<T> words = values;
  reader.List(key, Need::kOptional, allowed, [&](const Node& node, Diagnostics& diagnostics) {
    return ReadWord<T>(node, words, diagnostics);
  });
  return allowed;
}

void ReadAllows(MappingReader& reader, model::Family& family) {
  using model::Activator;
  using model::Normalization;
  using model::Position;
  family.activators = ReadAllowed(reader, "activation",
                                  {Activator::kGelu, Activator::kSwiGlu, Activator::kGeGlu,
                                   Activator::kSquaredRelu, Activator::kRelu});
  family.normalizations =
      ReadAllowed(reader, "normalization", {Normalization::kLayerNorm, Normalization::kRmsNorm});
  family.positions =
      ReadAllowed(reader, "position",
                  {Position::kLearned, Position::kRotary, Position::kAlibi, Position::kNone});
}

// The shipped families of which this holds.
std::vector<std::string> FamiliesThat(bool (*holds)(const YamlNode& family)) {
  std::vector<std::string> names = NamesIn(kFamilies);
  std::erase_if(names, [&](const std::string& name) {
    Diagnostics ignored;
    const std::optional<Node> family = ReadDocument(FamilyPath(name), ignored);
    return !family || !holds(*family->tree());
  });
  return names;
}

}  // namespace

std::string NameOfFamily(const Node& family) {
  const std::string name = family.file().substr(family.file().rfind('/') + 1);
  return name.substr(0, name.rfind('.'));
}

std::string UnmodelledFamily(std::string_view name) {
  Diagnostics ignored;
  const std::optional<Node> others = ReadDocument(FamilyPath("others"), ignored);
  const YamlNode* families = others ? Child(*others->tree(), "not_modelled") : nullptr;
  if (families == nullptr) return "";
  for (const YamlNode::Entry& family : families->entries) {
    if (!name.starts_with(family.key)) continue;
    const YamlNode *layers = Child(*family.value, "layers"),
                   *nearest = Child(*family.value, "nearest");
    return fmt::format(
        "{} {} {}, but stepcast does not model this feature", family.key,
        nearest == nullptr ? "has" : fmt::format("differs from {} by", nearest->scalar),
        layers == nullptr ? "" : layers->scalar);
  }
  return "";
}

std::string FamilyPath(const std::string& name) {
  return fmt::format("{}/{}/{}.yaml", DataRoot(), kFamilies, name);
}

bool HasBlocks(const YamlNode& family) {
  const YamlNode* model = Child(family, "model");
  return model != nullptr && Child(*model, "pattern") != nullptr;
}

std::shared_ptr<const model::Family> FamilyOfDimensions(const std::string& name,
                                                        Diagnostics& diagnostics) {
  const std::optional<Node> node = Shipped(name, diagnostics);
  if (!node || !HasDimensions(*node->tree())) return nullptr;
  const std::size_t before = diagnostics.size();
  const auto family =
      Named(*node, name, NamesWithLike(*node->tree(), "", diagnostics), diagnostics);
  if (family == nullptr) return nullptr;
  MappingReader reader(*node, diagnostics);
  reader.Section("typical", Need::kRequired,
                 [&](MappingReader& typical) { ReadTypical(typical, family->typical); });
  reader.Section("allows", Need::kOptional,
                 [&](MappingReader& allows) { ReadAllows(allows, *family); });
  ReadTraits(reader, family->traits);
  reader.Section("constants", Need::kOptional, [&](MappingReader& constants) {
    family->constants = ReadConstants(constants, family->typical);
  });
  reader.Optional("without_experts", family->without_experts);
  return diagnostics.size() == before ? family : nullptr;
}

std::shared_ptr<const model::Family> FamilyOfBlocks(const Node& family, Diagnostics& diagnostics) {
  return OfBlocks(family, NameOfFamily(family), diagnostics);
}

std::shared_ptr<const model::Family> FamilyOfBlocks(const std::string& name,
                                                    Diagnostics& diagnostics) {
  const std::optional<Node> family = Shipped(name, diagnostics);
  return family && HasBlocks(*family->tree()) ? FamilyOfBlocks(*family, diagnostics) : nullptr;
}

std::shared_ptr<const model::Family> GeneralFamily(Diagnostics& diagnostics) {
  const std::optional<Node> blocks = ReadDocument(FamilyPath("blocks"), diagnostics);
  return blocks ? OfBlocks(*blocks, "described", diagnostics) : nullptr;
}

std::vector<std::string> FamiliesOfDimensions() { return FamiliesThat(HasDimensions); }
std::vector<std::string> FamiliesOfBlocks() { return FamiliesThat(HasBlocks); }

std::optional<Node> ReadFamily(const std::string& path, Diagnostics& diagnostics) {
  const std::optional<Node> family = ReadDocument(path, diagnostics);
  return family ? Extended(*family, diagnostics) : std::nullopt;
}

}  // namespace stepcast::scenario
