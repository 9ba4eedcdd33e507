#pragma once

#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "src/foreign/import.h"

// For tests of imports.
namespace stepcast::foreign {

inline std::string Write(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

// The value of a key in the text, without its comment.
inline std::string ValueOf(const Imported& imported, const std::string& key) {
  const std::string& text = imported.scenario.text;
  const std::size_t at = text.find(" " + key + ": ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size() + 3;
  std::string value = text.substr(begin, text.find("  #", begin) - begin);
  value.erase(value.find_last_not_of(' ') + 1);
  return value;
}

}  // namespace stepcast::foreign
