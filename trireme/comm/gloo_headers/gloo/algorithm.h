#pragma once
// The torch wheel ships gloo's code but not its headers. ProcessGroupGloo.hpp includes this one and uses nothing of it.
