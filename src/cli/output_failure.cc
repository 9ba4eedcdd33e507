#include "src/cli/output_failure.h"

#include <limits.h>

#include <filesystem>
#include <system_error>

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
  const fs::path folder = fs::absolute(path, error).parent_path();
  if (error || fs::is_directory(folder, error)) return Failed(failure);
  return WrongInput({{"file.not-found",
                      {path, 0, 0},
                      fmt::format("the folder to write into does not exist: {}",
                                  Quoted(folder.string(), "'", PATH_MAX)),
                      "make it first, or name another"}});
}

}  // namespace stepcast::cli
