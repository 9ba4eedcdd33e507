#include "src/scenario/family_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "gtest/gtest.h"
#include "src/model/model.h"
#include "src/scenario/model_file.h"

namespace stepcast::scenario {
namespace {

TEST(FamilyFileTest, Dev) {
  const char* folder = std::getenv("FAMILY_CONFIGS");
  if (folder == nullptr) return;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    const auto loaded = LoadModel(file);
    std::cout << std::filesystem::path(file).filename().string() << ": ";
    if (!loaded) {
      std::cout << "REFUSED\n";
      for (const auto& d : loaded.error()) {
        std::cout << "    " << d.location.line << " " << d.code << " " << d.message << "\n";
      }
      continue;
    }
    std::cout << loaded->model.parameter_count() << "\n";
    for (const auto& w : loaded->warnings) std::cout << "    " << w << "\n";
  }
}

}  // namespace
}  // namespace stepcast::scenario
