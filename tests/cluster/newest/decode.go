// Reads a List of objects and decodes each by the types of Kubernetes, strictly: a field that its type does not have, or that stands
// twice, is an error. Prints one JSON object: how many are known, which kinds are not Kubernetes' own, and what is wrong.
package main

import (
    "encoding/json"
    "fmt"
    "os"

    "k8s.io/apimachinery/pkg/runtime"
    "k8s.io/apimachinery/pkg/runtime/serializer"
    "k8s.io/client-go/kubernetes/scheme"
)

func main() {
    var list struct {
        Items []json.RawMessage `json:"items"`
    }
    if err := json.NewDecoder(os.Stdin).Decode(&list); err != nil {
        fmt.Fprintln(os.Stderr, err)
        os.Exit(1)
    }
    decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
    found := struct {
        Known   int      `json:"known"`
        Unknown []string `json:"unknown"`
        Wrong   []string `json:"wrong"`
    }{}
    for _, item := range list.Items {
        _, kind, err := decoder.Decode(item, nil, nil)
        switch {
        case err == nil:
            found.Known++
        case runtime.IsNotRegisteredError(err):
            found.Unknown = append(found.Unknown, kind.Kind)
        default:
            found.Wrong = append(found.Wrong, err.Error())
        }
    }
    json.NewEncoder(os.Stdout).Encode(found)
}
