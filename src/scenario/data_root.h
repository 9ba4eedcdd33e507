#pragma once

#include <optional>
#include <string>
#include <string_view>

// The location of input files. The data root is the folder with models/, topologies/, calibration/
// and scenarios/. It is $STEPCAST_DATA if that is set. Otherwise it is the data that the binary was
// built or installed with: its Bazel runfiles, or the workspace that contains it; share/stepcast
// next to its bin/; inside a Bazel test, the test's runfiles ($RUNFILES_DIR). No path is compiled
// in, so a checkout or an unpacked archive can be moved.
namespace stepcast::scenario {

// Empty if there is none, or if $STEPCAST_DATA is not a directory.
std::string DataRoot();

// Resolves `path`, as written in an input file in `folder`: as is if absolute, otherwise relative
// to `folder` ("" = the working directory), then relative to the data root. Nothing if it exists in
// none of these places.
std::optional<std::string> FindInput(std::string_view path, std::string_view folder);

// For the hint of a Diagnostic: the places where FindInput looks for `path`.
std::string PlacesTried(std::string_view path, std::string_view folder);

// "scenarios" of "scenarios/x.yaml"; "" of "x.yaml".
std::string FolderOf(std::string_view file);

}  // namespace stepcast::scenario
