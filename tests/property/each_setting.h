#pragma once

#include <string>
#include <vector>

// Every setting that a scenario file takes, as the schema of scenario files lists them, with values
// to try: a new setting is tried without being named here.
namespace stepcast {

struct TriedSetting {
  std::vector<std::string> beside;  // what --set takes, so that the mapping that holds it is whole
  std::string key;                  // dotted: "training.lora.dropout"
  std::vector<std::string> values;  // in YAML
  bool quantity = false;            // numbers, sizes or versions: some change nothing by chance
};

std::vector<TriedSetting> EachSetting();

}  // namespace stepcast
