// A client of the real client-go: shared informers of one namespace's ConfigMaps, to be compared
// with a list once an object named "end" has come.
//
//	informers -kubeconfig FILE -namespace NAME      (KUBE_FEATURE_WatchListClient=true|false)
//
// Prints "synced" once its cache is filled; at the end a line for each object of the informer's
// store, "store NAME VERSION", and one for each of the state that its handlers were told of,
// "told NAME VERSION". Whatever an informer must never tell ends it with exit code 1.
package main

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func fail(format string, values ...any) {
	fmt.Printf("failed: "+format+"\n", values...)
	os.Exit(1)
}

func version(object *v1.ConfigMap) uint64 {
	version, err := strconv.ParseUint(object.ResourceVersion, 10, 64)
	if err != nil {
		fail("%s has the version %q", object.Name, object.ResourceVersion)
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
	added := object.(*v1.ConfigMap)
	if known, there := t.versions[added.Name]; there {
		fail("%s was added at %s, and was there at %d", added.Name, added.ResourceVersion, known)
	}
	t.versions[added.Name] = version(added)
}

func (t *told) updated(before, object any) {
	t.Lock()
	defer t.Unlock()
	old, updated := before.(*v1.ConfigMap), object.(*v1.ConfigMap)
	known, there := t.versions[updated.Name]
	if !there || known != version(old) {
		fail("%s was updated from %s, and was at %d", updated.Name, old.ResourceVersion, known)
	}
	// Another object of the same name may come without a deletion between, after a cut.
	if version(updated) < known {
		fail("%s went back from %d to %s", updated.Name, known, updated.ResourceVersion)
	}
	t.versions[updated.Name] = version(updated)
}

func (t *told) deleted(object any) {
	t.Lock()
	defer t.Unlock()
	if unknown, missed := object.(cache.DeletedFinalStateUnknown); missed {
		object = unknown.Obj
	}
	deleted := object.(*v1.ConfigMap)
	if _, there := t.versions[deleted.Name]; !there {
		fail("%s was deleted, and was not there", deleted.Name)
	}
	delete(t.versions, deleted.Name)
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

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the server")
	namespace := flag.String("namespace", "default", "whose ConfigMaps")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fail("%v", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fail("%v", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(*namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	told := &told{versions: map[string]uint64{}}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    told.added,
		UpdateFunc: told.updated,
		DeleteFunc: told.deleted,
	})
	if err != nil {
		fail("%v", err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
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
		store[object.(*v1.ConfigMap).Name] = version(object.(*v1.ConfigMap))
	}
	show("store", store)
	told.Lock()
	show("told", told.versions)
}
