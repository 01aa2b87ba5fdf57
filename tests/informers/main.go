// Clients of the real client-go, for tests. The first word says which:
//
//	informers            shared informers of one namespace's ConfigMaps (informers.go)
//	informers typed      the typed clients of all kinds, over protobuf (typed.go)
//	informers metadata   the metadata client for all kinds (metadata.go)
//	informers custom     clients and informers of a custom resource (custom.go)
//
// Whatever must not be ends it with exit code 1, after a line "failed: REASON".
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	asJSON     = "application/json"
	asProtobuf = "application/vnd.kubernetes.protobuf"
)

func fail(format string, values ...any) {
	fmt.Printf("failed: "+format+"\n", values...)
	os.Exit(1)
}

func must(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

// Fails at an answer in another media type, and at a body that isn't a patch if bodies count.
type only struct {
	mediaType string
	bodies    bool
	next      http.RoundTripper
}

func (o only) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := request.Header.Get("Content-Type")
	if o.bodies && sent != "" && sent != o.mediaType && request.Method != http.MethodPatch {
		fail("%s %s was sent as %s", request.Method, request.URL, sent)
	}
	response, err := o.next.RoundTrip(request)
	if err == nil {
		got, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
		// A refusal can't be shown as its metadata: the next clause counts, which is JSON.
		isOther := response.StatusCode >= 400 && strings.Contains(request.Header.Get("Accept"), ";as=")
		if got != o.mediaType && !isOther {
			fail("%s %s was answered as %s", request.Method, request.URL, got)
		}
	}
	return response, err
}

// What reaches the server by one media type and by nothing else.
func over(config *rest.Config, mediaType string) *rest.Config {
	config = checked(config, mediaType, true)
	config.ContentType = mediaType
	config.AcceptContentTypes = mediaType
	return config
}

// The same for the metadata client, which says itself what it accepts. Its options are JSON.
func answered(config *rest.Config, mediaType string) *rest.Config {
	return checked(config, mediaType, false)
}

func checked(config *rest.Config, mediaType string, bodies bool) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return only{mediaType, bodies, next}
	})
	return config
}

var kubeconfig = flag.String("kubeconfig", "", "how to reach the server")

func configured() *rest.Config {
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must(err, "the kubeconfig")
	return config
}

func main() {
	mode := ""
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		mode = os.Args[1]
		os.Args = append(os.Args[:1], os.Args[2:]...)
	}
	switch mode {
	case "":
		informersMain()
	case "typed":
		typedMain()
	case "metadata":
		metadataMain()
	case "custom":
		customMain()
	default:
		fail("there is no %q", mode)
	}
}
