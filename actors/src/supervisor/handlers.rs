//! Deaths, and the end of the house.

use actix::fut::wrap_future;
use actix::{ActorContext, ActorFutureExt, Context, Handler, ResponseActFuture, StreamHandler};

use super::Supervisor;
use super::messages::StopAll;
use crate::exit::Exited;

impl StreamHandler<Exited> for Supervisor {
    fn handle(&mut self, exited: Exited, context: &mut Context<Supervisor>) {
        self.child_exited(exited, context);
    }
}

impl Handler<StopAll> for Supervisor {
    type Result = ResponseActFuture<Supervisor, ()>;

    fn handle(&mut self, _: StopAll, _: &mut Context<Supervisor>) -> Self::Result {
        let stops = self.stops_in_order();
        let stopped = wrap_future(async move {
            for stop in stops {
                stop.await;
            }
        });
        Box::pin(stopped.map(|(), _, context: &mut Context<Supervisor>| context.stop()))
    }
}
