#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/foreign/framework.h"
#include "src/foreign/setting.h"

// Which program a file is of.
namespace stepcast::foreign {

// All whose configurations are read.
std::span<const Framework* const> Frameworks();

// A file as a framework's configuration, with options named as in its table.
struct Recognised {
  const Framework* framework;
  Document document;
};
// Nothing where the settings are of no framework that is read.
std::optional<Recognised> Recognise(const Document& document);

// What a file is that no framework here reads, by its keys: "a configuration of nanotron". Empty:
// it is not known either.
std::string_view OtherProgramOf(const Document& document);

// Whether the settings are a scenario's of stepcast, or a plan.json.
bool IsScenario(const Document& document);
// Whether they are a model's: a config.json of Hugging Face.
bool IsModel(const Document& document);

}  // namespace stepcast::foreign
