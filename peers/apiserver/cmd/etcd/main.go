// The real etcd, built from its Go modules. kube-apiserver stores its objects here.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
