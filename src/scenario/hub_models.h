#pragma once

#include <optional>
#include <string>
#include <string_view>

// Names of models on the Hugging Face Hub.
namespace stepcast::scenario {

// Returns stepcast's model with the dimensions of the Hugging Face Hub model `name`, of any owner.
// If the names of several models are prefixes of `name`, returns the model with the longest name.
// Hyphens between letters and digits are optional: "llama3-8b" is Llama-3-8B. None if no model
// matches.
std::optional<std::string> ModelOfTheHub(const std::string& name);

// Returns the table of names (hub_models.yaml), which is embedded at build time.
std::string_view HubModels();

}  // namespace stepcast::scenario
