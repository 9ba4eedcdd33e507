#pragma once

#include <optional>
#include <string>
#include <string_view>

// Where input files lie. The data root is the folder that holds models/, topologies/, calibration/
// and scenarios/: $STEPCAST_DATA if it is set, else the data that the binary was built or installed
// with (its Bazel runfiles, or the workspace that it lies in; share/stepcast beside its bin/;
// inside a Bazel test the test's runfiles, $RUNFILES_DIR). No path is compiled in, so that a
// checkout or an unpacked archive can move.
namespace stepcast::scenario {

// Empty when there is none, or when $STEPCAST_DATA names no directory.
std::string DataRoot();

// The file that `path`, as written in an input file in `folder`, means: itself when it is absolute,
// else relative to `folder` ("" = the working directory), else relative to the data root. Empty
// when it exists in none of these places.
std::optional<std::string> FindInput(std::string_view path, std::string_view folder);

// For the hint of a Diagnostic: the places where FindInput looked for `path`.
std::string PlacesTried(std::string_view path, std::string_view folder);

// "scenarios" of "scenarios/x.yaml"; "" of "x.yaml".
std::string FolderOf(std::string_view file);

}  // namespace stepcast::scenario
