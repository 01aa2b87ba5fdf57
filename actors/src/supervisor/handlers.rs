//! The message handlers of the Supervisor.

use actix::fut::wrap_future;
use actix::{ActorContext, ActorFutureExt, Context, Handler, ResponseActFuture, StreamHandler};

use futures_util::future::join_all;

use super::Supervisor;
use super::messages::{AddChildren, RemoveChildren, StopAll, Stopping};
use crate::exit::Exited;

impl StreamHandler<Exited> for Supervisor {
    fn handle(&mut self, exited: Exited, context: &mut Context<Supervisor>) {
        self.child_exited(exited, context);
    }
}

impl Handler<AddChildren> for Supervisor {
    type Result = Result<(), Stopping>;

    fn handle(
        &mut self,
        message: AddChildren,
        _: &mut Context<Supervisor>,
    ) -> Result<(), Stopping> {
        self.add_children(message.0)
    }
}

impl Handler<RemoveChildren> for Supervisor {
    type Result = ResponseActFuture<Supervisor, ()>;

    fn handle(&mut self, message: RemoveChildren, _: &mut Context<Supervisor>) -> Self::Result {
        let removals = self.begin_removals(&message.0);
        Box::pin(wrap_future(async move {
            for removal in removals {
                removal.until_ended().await;
            }
        }))
    }
}

impl Handler<StopAll> for Supervisor {
    type Result = ResponseActFuture<Supervisor, ()>;

    fn handle(&mut self, _: StopAll, _: &mut Context<Supervisor>) -> Self::Result {
        let stops = self.stops_in_order();
        let stopped = wrap_future(async move {
            for kind in stops {
                join_all(kind).await;
            }
        });
        Box::pin(stopped.map(|(), _, context: &mut Context<Supervisor>| context.stop()))
    }
}
