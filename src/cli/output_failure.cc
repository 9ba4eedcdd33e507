#include "src/cli/output_failure.h"

#include <limits.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "src/base/diagnostic.h"

namespace stepcast::cli {

Outcome CannotCreate(const std::string& path, const std::string& failure) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return WrongInput({{"file.not-a-file",
                        {path, 0, 0},
                        fmt::format("this is a folder, and a file is to be written: {}",
                                    Quoted(path, "'", PATH_MAX)),
                        "add the name of the file"}});
  }
  if (auto missing = NoFolderFor(path)) return *std::move(missing);
  return Failed(failure);
}

std::optional<Outcome> NoFolderFor(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path whole = fs::absolute(path, error);
  if (error) return std::nullopt;
  if (!whole.has_filename()) whole = whole.parent_path();  // "folder/"
  const fs::path folder = whole.parent_path();
  if (fs::is_directory(folder, error)) return std::nullopt;
  return WrongInput({{"file.not-found",
                      {path, 0, 0},
                      fmt::format("the folder to write into does not exist: {}",
                                  Quoted(folder.string(), "'", PATH_MAX)),
                      "make it first, or name another"}});
}

}  // namespace stepcast::cli
