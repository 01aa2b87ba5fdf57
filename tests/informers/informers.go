package main

// Shared informers of one namespace's ConfigMaps, to be compared with a list once an object named
// "end" has come.
//
//	informers -kubeconfig FILE -namespace NAME -over json|protobuf|metadata
//	(KUBE_FEATURE_WatchListClient=true|false)
//
// Prints "synced" once its cache is filled; at the end a line for each object of the informer's
// store, "store NAME VERSION", and one for each of the state that its handlers were told of,
// "told NAME VERSION". Whatever an informer must never tell ends it with exit code 1.

import (
	"flag"
	"fmt"
	"sort"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func version(object metav1.Object) uint64 {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		fail("%s has the version %q", object.GetName(), object.GetResourceVersion())
	}
	return version
}

// What the handlers were told, by name.
type told struct {
	sync.Mutex
	versions map[string]uint64
}

func (t *told) added(object any) {
	t.Lock()
	defer t.Unlock()
	added := object.(metav1.Object)
	name := added.GetName()
	if known, there := t.versions[name]; there {
		fail("%s was added at %d, and was there at %d", name, version(added), known)
	}
	t.versions[name] = version(added)
}

func (t *told) updated(before, object any) {
	t.Lock()
	defer t.Unlock()
	old, updated := before.(metav1.Object), object.(metav1.Object)
	name := updated.GetName()
	known, there := t.versions[name]
	if !there || known != version(old) {
		fail("%s was updated from %d, and was at %d", name, version(old), known)
	}
	// Another object of the same name may come without a deletion between, after a cut.
	if version(updated) < known {
		fail("%s went back from %d to %d", name, known, version(updated))
	}
	t.versions[name] = version(updated)
}

func (t *told) deleted(object any) {
	t.Lock()
	defer t.Unlock()
	if unknown, missed := object.(cache.DeletedFinalStateUnknown); missed {
		object = unknown.Obj
	}
	name := object.(metav1.Object).GetName()
	if _, there := t.versions[name]; !there {
		fail("%s was deleted, and was not there", name)
	}
	delete(t.versions, name)
}

func show(kind string, versions map[string]uint64) {
	names := make([]string, 0, len(versions))
	for name := range versions {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("%s %s %d\n", kind, name, versions[name])
	}
}

// The informer in a form, and what starts it.
func informer(config *rest.Config, form, namespace string) (cache.SharedIndexInformer, func(<-chan struct{})) {
	if form == "metadata" {
		client, err := metadata.NewForConfig(answered(config, asProtobuf))
		must(err, "the metadata client")
		factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, namespace, nil)
		return factory.ForResource(v1.SchemeGroupVersion.WithResource("configmaps")).Informer(), factory.Start
	}
	mediaType := map[string]string{"json": asJSON, "protobuf": asProtobuf}[form]
	client, err := kubernetes.NewForConfig(over(config, mediaType))
	must(err, "the client")
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	return factory.Core().V1().ConfigMaps().Informer(), factory.Start
}

// Adds handlers that note the events.
func handled(informer cache.SharedIndexInformer) (*told, cache.ResourceEventHandlerRegistration) {
	told := &told{versions: map[string]uint64{}}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    told.added,
		UpdateFunc: told.updated,
		DeleteFunc: told.deleted,
	})
	must(err, "the handlers")
	return told, registration
}

func informersMain() {
	namespace := flag.String("namespace", "default", "whose ConfigMaps")
	form := flag.String("over", "json", "json, protobuf or metadata")
	flag.Parse()
	informer, start := informer(configured(), *form, *namespace)
	told, registration := handled(informer)
	stop := make(chan struct{})
	start(stop)
	if !cache.WaitForCacheSync(stop, registration.HasSynced) {
		fail("the cache was not filled")
	}
	fmt.Println("synced")
	ended := func() bool {
		told.Lock()
		defer told.Unlock()
		_, there := told.versions["end"]
		return there
	}
	for !ended() {
		time.Sleep(10 * time.Millisecond)
	}
	store := map[string]uint64{}
	for _, object := range informer.GetStore().List() {
		store[object.(metav1.Object).GetName()] = version(object.(metav1.Object))
	}
	show("store", store)
	told.Lock()
	show("told", told.versions)
}
