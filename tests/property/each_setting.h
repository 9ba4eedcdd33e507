#pragma once

#include <string>
#include <vector>

// Every setting of scenario files, from their schema, with values to test. New settings are
// included automatically.
namespace stepcast {

struct TriedSetting {
  std::vector<std::string> beside;  // further values of --set that complete the mapping around it
  std::string key;                  // dotted: "training.lora.dropout"
  std::vector<std::string> values;  // in YAML
  bool quantity = false;            // numbers, sizes or versions; some have no effect by chance
};

std::vector<TriedSetting> EachSetting();

}  // namespace stepcast
