// Measures client-go's dynamic shared informer as ingest.py measures ours; prints the same line of JSON.
//
//	ingest URL COUNT EVENTS
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func rss() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

func cpu() float64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(used.Utime) + seconds(used.Stime)
}

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	events, _ := strconv.Atoi(os.Args[3])
	client, err := dynamic.NewForConfig(&rest.Config{Host: os.Args[1], QPS: -1})
	if err != nil {
		panic(err)
	}
	var live atomic.Int64
	var first, last time.Time
	var firstCPU float64
	done := make(chan struct{})
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	resource := schema.GroupVersionResource{Group: "kopf.dev", Version: "v1", Resource: "kopfexamples"}
	informer := factory.ForResource(resource).Informer()
	before, began, burnt := rss(), time.Now(), cpu()
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ interface{}) {
		switch seen := live.Add(1); {
		case seen == 1:
			first, firstCPU = time.Now(), cpu()
		case seen == int64(events):
			last = time.Now()
			close(done)
		}
	}})
	if err != nil {
		panic(err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	cache.WaitForCacheSync(stop, handler.HasSynced)
	synced, syncedCPU := time.Since(began).Seconds(), cpu()-burnt
	time.Sleep(200 * time.Millisecond)
	held := rss() - before
	<-done
	line, _ := json.Marshal(map[string]any{
		"objects":              count,
		"events":               live.Load(),
		"sync_per_s":           int(float64(count) / synced),
		"sync_per_cpu_s":       int(float64(count) / syncedCPU),
		"live_per_s":           int(float64(events-1) / last.Sub(first).Seconds()),
		"live_per_cpu_s":       int(float64(events-1) / (cpu() - firstCPU)),
		"rss_per_object_bytes": held / int64(count),
	})
	fmt.Println(string(line))
}
